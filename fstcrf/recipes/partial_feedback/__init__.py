"""Noun-phrase chunking learnt from rewards for samples.

=======  ====================================================
data     CoNLL-2000 with the noun phrases of its chunks
systems  what is compared, with the settings that dev data chose
curves   learning curves, and their picture
speed    how many samples a second
recipe   the run and its report
=======  ====================================================
"""
