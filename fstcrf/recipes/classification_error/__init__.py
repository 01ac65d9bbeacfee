"""The recipe ``mce``: training on smooth counts of errors, by Suzuki, McDermott and Isozaki."""
