# Parts of speech (column `pos`) from the word, its spelling and its neighbours.
U00:%x[-1,lower(word)]
U01:%x[0,lower(word)]
U02:%x[1,lower(word)]
U03:%x[0,suffix(word,3)]
U04:%x[0,shape(word)]

# each pair of neighbouring labels
B
