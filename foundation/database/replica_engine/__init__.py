"""Django's engine for the replica, whose statements are repeated on the primary if the replica can't execute them."""
