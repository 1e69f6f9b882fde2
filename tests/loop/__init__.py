"""The proof of the loop: workers, their sidecars, the autoscalers that read them."""
