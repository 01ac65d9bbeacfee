# Fields of a notice, as field.tpl, but from the labels that a tagger of parts of speech gives.
U00:%x[-2,lower(word)]
U01:%x[-1,lower(word)]
U02:%x[0,lower(word)]
U03:%x[1,lower(word)]
U04:%x[2,lower(word)]
U05:%x[-1,lower(word)]/%x[0,lower(word)]
U06:%x[0,lower(word)]/%x[1,lower(word)]
U07:%x[0,shape(word)]

# the label of that tagger at this position
U10:%y[0,pos]
U11:%y[0,pos]/%x[-1,lower(word)]
U12:%y[0,pos]/%x[1,lower(word)]

# each pair of neighbouring labels
B
