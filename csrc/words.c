/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of unspaced text: the words that may begin at each place, and the cheapest path through them.
 *
 * A dictionary may be a mapped file, and many times as large as the parts that are read: indices are
 * checked when they are used, not beforehand. */

#include <limits.h>
#include <string.h>

#include "checks.h"
#include "vec.h"

#define NO_WAY INT64_MAX

/* --- The double array --------------------------------------------------------------------------- */

/* From node `base`, over one byte, to the next node; below 0: no such node. */
FC_INLINE int64_t over(int64_t units, const fc_unit *unit, int64_t base, uint8_t byte) {
    const int64_t p = base + byte + 1;
    if (p >= units || (int64_t)unit[p].check != base) return -1;
    return unit[p].base;
}

/* The value of the key that ends in node `base`; below 0: no key ends there. */
FC_INLINE int64_t value_at(int64_t units, const fc_unit *unit, int64_t base) {
    if (base >= units || (int64_t)unit[base].check != base || unit[base].base >= 0) return -1;
    return -(int64_t)unit[base].base - 1;
}

/* Keys left .. right - 1, which agree in `depth` bytes; their node's children go to unit[slot].base. */
typedef struct {
    int64_t left, right, depth, slot;
} branch;

/* Codes of the children of a node: 0 for the end of a key, byte + 1 otherwise; and the first key of
   each child. */
typedef struct {
    int64_t n;
    int32_t code[257];
    int64_t from[258];
} children;

static fc_status find_children(const int64_t *offsets, const uint8_t *text, const branch *b,
                               children *c, int64_t *where) {
    c->n = 0;
    int32_t last = -1;
    for (int64_t k = b->left; k < b->right; k++) {
        const int64_t size = offsets[k + 1] - offsets[k];
        if (size < b->depth || size < 1) return fail(FC_EINVAL, k, where);
        const int32_t code = size == b->depth ? 0 : text[offsets[k] + b->depth] + 1;
        if (code < last || (code == 0 && last == 0)) return fail(FC_EINVAL, k, where);
        if (code == last) continue;
        c->code[c->n] = last = code;
        c->from[c->n++] = k;
    }
    c->from[c->n] = b->right;
    return FC_OK;
}

/* A position for a node's children; before *next almost every position is taken. -1: no room. */
static int64_t place_children(const children *c, int64_t room, const fc_unit *unit,
                              const uint8_t *used, int64_t *next) {
    int64_t pos = c->code[0] + 1 > *next ? c->code[0] + 1 : *next, taken = 0, first = -1;
    for (;; pos++) {
        if (pos >= room) return -1;
        if (unit[pos].check != 0) {
            taken++;
            continue;
        }
        if (first < 0) *next = first = pos;
        const int64_t begin = pos - c->code[0];
        if (begin + c->code[c->n - 1] >= room) return -1;
        if (used[begin]) continue;
        int64_t i = 1;
        while (i < c->n && unit[begin + c->code[i]].check == 0) i++;
        if (i == c->n) break;
    }
    if ((double)taken >= 0.95 * (double)(pos - first + 1)) *next = pos;
    return pos - c->code[0];
}

fc_status fc_build_trie(int64_t n, const int64_t *offsets, const uint8_t *text,
                        const int32_t *value, int64_t room, fc_unit *unit, uint8_t *used,
                        int64_t *stack, int64_t *size, int64_t *where) {
    *where = 0;
    *size = 1;
    if (room < 1 || room > INT32_MAX) return FC_EINVAL;
    const fc_status rises = check_rows(n, offsets, where);
    if (rises != FC_OK) return rises;
    unit[0].base = 1;
    if (n == 0) return FC_OK;
    branch *open = (branch *)(void *)stack;
    int64_t waiting = 0, next = 1;
    open[waiting++] = (branch){0, n, 0, 0};
    while (waiting > 0) {
        const branch b = open[--waiting];
        children c;
        const fc_status status = find_children(offsets, text, &b, &c, where);
        if (status != FC_OK) return status;
        const int64_t begin = place_children(&c, room, unit, used, &next);
        if (begin < 0) return FC_EFULL;
        used[begin] = 1;
        unit[b.slot].base = (int32_t)begin;
        for (int64_t i = 0; i < c.n; i++) unit[begin + c.code[i]].check = (uint32_t)begin;
        for (int64_t i = c.n - 1; i >= 0; i--) {
            const int64_t slot = begin + c.code[i];
            if (c.code[i] == 0)
                unit[slot].base = -value[c.from[i]] - 1;
            else
                open[waiting++] = (branch){c.from[i], c.from[i + 1], b.depth + 1, slot};
        }
        const int64_t end = begin + c.code[c.n - 1] + 1;
        *size = end > *size ? end : *size;
    }
    return FC_OK;
}

/* --- Characters --------------------------------------------------------------------------------- */

FC_INLINE uint32_t kinds_of(uint32_t info) { return info & 0x3FFFF; }
FC_INLINE int64_t kind_of(uint32_t info) { return info >> 18 & 0xFF; }
FC_INLINE int64_t lengths_of(uint32_t info) { return info >> 26 & 0xF; }
FC_INLINE int runs(uint32_t info) { return (int)(info >> 30 & 1); }
FC_INLINE int always(uint32_t info) { return (int)(info >> 31); }

/* The character at `at`, which ends at *end; a byte that is not UTF-8 counts as a character. Characters
   beyond the table have the info of code 0. */
FC_INLINE uint32_t character_at(const fc_lexicon *lexicon, int64_t size, const uint8_t *text,
                                int64_t at, int64_t *end) {
    const uint8_t b = text[at];
    int64_t more = b < 0xC0 ? 0 : b < 0xE0 ? 1 : b < 0xF0 ? 2 : b < 0xF8 ? 3 : 0;
    if (at + more >= size) more = 0;
    uint32_t code = more == 0 ? b : more == 1 ? b & 0x1F : more == 2 ? b & 0xF : 0;
    if (more < 3)
        for (int64_t i = 1; i <= more; i++) code = code << 6 | (text[at + i] & 0x3F);
    *end = at + more + 1;
    return lexicon->character[(int64_t)code < lexicon->characters ? code : 0];
}

/* The end of a run of characters in which neighbours share a kind. */
typedef struct {
    int64_t end, characters;
    uint32_t
        last; /* the first character after it; the last one of the run at the end of the text */
    int64_t last_end;
} run;

static run run_of(const fc_lexicon *lexicon, int64_t size, const uint8_t *text, int64_t at,
                  uint32_t info) {
    run r = {at, 0, info, at};
    while (r.end < size) {
        const uint32_t next = character_at(lexicon, size, text, r.end, &r.last_end);
        const int same = (kinds_of(r.last) & kinds_of(next)) != 0;
        r.last = next;
        if (!same) break;
        r.end = r.last_end;
        r.characters++;
    }
    return r;
}

/* --- The words at one place --------------------------------------------------------------------- */

/* The words found so far; `head`: the last word found for each end, -1: no word ends there. */
typedef struct {
    const fc_lexicon *lexicon;
    int64_t size;
    const uint8_t *text, *boundary;
    int64_t room, count;
    fc_word *words;
    int64_t *where;
} finder;

/* 1: a word may be here, judged by the known boundaries. */
static int allowed(const finder *f, int64_t start, int64_t end) {
    if (f->boundary == NULL) return 1;
    if (f->boundary[start] == 2 || f->boundary[end] == 2) return 0;
    return memchr(f->boundary + start + 1, 1, (size_t)(end - start - 1)) == NULL;
}

static fc_status add_words(finder *f, int64_t from, int64_t start, int64_t end, int64_t first,
                           int64_t n) {
    if (!allowed(f, start, end)) return FC_OK;
    if (f->count + n > f->room) return FC_EFULL;
    for (int64_t k = 0; k < n; k++)
        f->words[f->count++] =
            (fc_word){(int32_t)from, (int32_t)start, (int32_t)end, (int32_t)(first + k), -1, -1, 0};
    return FC_OK;
}

static fc_status add_known(finder *f, const fc_dictionary *d, int64_t from, int64_t start) {
    if (d->units < 1) return FC_OK;
    int64_t base = d->unit[0].base;
    for (int64_t i = start; i < f->size && base >= 0; i++) {
        base = over(d->units, d->unit, base, f->text[i]);
        if (base < 0) break;
        const int64_t value = value_at(d->units, d->unit, base);
        if (value < 0) continue;
        if ((value >> 8) + (value & 0xFF) > d->entries)
            return fail(FC_EINVAL, value >> 8, f->where);
        const fc_status status =
            add_words(f, from, start, i + 1, d->first + (value >> 8), value & 0xFF);
        if (status != FC_OK) return status;
    }
    return FC_OK;
}

static fc_status add_unknown(finder *f, uint32_t info, int64_t from, int64_t start, int64_t end) {
    const int64_t kind = kind_of(info);
    if (kind >= f->lexicon->kinds) return fail(FC_EINVAL, kind, f->where);
    const int64_t *entries = f->lexicon->unknown + kind;
    return add_words(f, from, start, end, f->lexicon->first + entries[0], entries[1] - entries[0]);
}

/* Words that no dictionary has: a run of one kind, its first characters, or one character as a last
 * resort. */
static fc_status add_guesses(finder *f, uint32_t info, int64_t from, int64_t start, int64_t end) {
    const int64_t before = f->count;
    fc_status status = FC_OK;
    int64_t whole = -1, at = end;
    if (runs(info)) {
        const run r = run_of(f->lexicon, f->size, f->text, end, info);
        if (r.characters <= f->lexicon->longest_run)
            status = add_unknown(f, info, from, start, r.end);
        whole = r.end;
    }
    for (int64_t i = 1; i <= lengths_of(info) && status == FC_OK && at != whole; i++) {
        status = add_unknown(f, info, from, start, at);
        if (at >= f->size) break;
        int64_t further;
        const uint32_t next = character_at(f->lexicon, f->size, f->text, at, &further);
        if ((kinds_of(info) & kinds_of(next)) == 0) break;
        at = further;
    }
    if (status == FC_OK && f->count == before) status = add_unknown(f, info, from, start, end);
    return status;
}

static run blanks_from(const finder *f, int64_t from) {
    const fc_lexicon *lexicon = f->lexicon;
    const uint32_t blank = lexicon->character[' ' < lexicon->characters ? ' ' : 0];
    return run_of(lexicon, f->size, f->text, from, blank);
}

/* Adds the words that may follow one that ends at `from`. */
static fc_status words_from(finder *f, int64_t from) {
    const fc_lexicon *lexicon = f->lexicon;
    const run blanks = blanks_from(f, from);
    const int64_t start = blanks.end, before = f->count;
    if (start >= f->size) return FC_OK;
    for (int64_t d = 0; d < lexicon->dictionaries; d++) {
        const fc_status status = add_known(f, lexicon->dictionary + d, from, start);
        if (status != FC_OK) return status;
    }
    if (f->count > before && !always(blanks.last)) return FC_OK;
    const int64_t known = f->count;
    const fc_status status = add_guesses(f, blanks.last, from, start, blanks.last_end);
    if (status != FC_OK || f->count > known || f->count > before || f->boundary == NULL)
        return status;
    /* No word fits the known boundaries: the text between two of them becomes a word. */
    int64_t end = blanks.last_end;
    while (end < f->size && f->boundary[end] != 1)
        character_at(lexicon, f->size, f->text, end, &end);
    return add_unknown(f, blanks.last, from, start, end);
}

/* --- Lattices ----------------------------------------------------------------------------------- */

static const fc_entry_cost *entry_of(const fc_lexicon *lexicon, int32_t word) {
    for (int64_t d = 0; d < lexicon->dictionaries; d++) {
        const fc_dictionary *one = lexicon->dictionary + d;
        const int64_t k = word - one->first;
        if (k >= 0 && k < one->entries) return one->entry + k;
    }
    const int64_t k = word - lexicon->first;
    return k >= 0 && k < lexicon->unknowns ? lexicon->unknown_entry + k : NULL;
}

fc_status fc_find_words(const fc_lexicon *lexicon, int64_t size, const uint8_t *text,
                        const uint8_t *boundary, int64_t room, fc_word *words, int32_t *head,
                        int64_t *count, int64_t *last, int64_t *where) {
    *where = 0;
    if (size < 0 || size >= INT32_MAX || room < 0 || room > INT32_MAX) return FC_EINVAL;
    finder f = {lexicon, size, text, boundary, room, 0, words, where};
    memset(head, 0, (size_t)(size + 1) * sizeof *head);
    head[0] = 1;
    for (int64_t at = 0; at < size; at++) {
        if (!head[at]) continue;
        const int64_t first = f.count;
        const fc_status status = words_from(&f, at);
        if (status != FC_OK) return status;
        for (int64_t k = first; k < f.count; k++) {
            const fc_entry_cost *entry = entry_of(lexicon, words[k].word);
            if (entry == NULL || entry->left >= lexicon->lefts || entry->right >= lexicon->rights)
                return fail(FC_EINVAL, words[k].word, where);
            head[words[k].end] = 1;
        }
    }
    *count = f.count;
    *last = size;
    while (*last > 0 && !head[*last]) --*last;
    if (blanks_from(&f, *last).end < size) *last = -1;
    return FC_OK;
}

/* --- The cheapest way --------------------------------------------------------------------------- */

/* The words that end at one place: for each right context the cheapest word, in MeCab's order. */
typedef struct {
    int64_t n;
    int32_t *context, *word;
} endings;

/* slot[c] is the number of the group of context c, if that group is there and has this context. */
static fc_status gather(const fc_lexicon *lexicon, const fc_word *words, int32_t head,
                        int32_t *slot, endings *e, int64_t *where) {
    e->n = 0;
    for (int32_t k = head; k >= 0; k = words[k].next) {
        const fc_entry_cost *entry = entry_of(lexicon, words[k].word);
        if (entry == NULL || entry->right >= lexicon->rights)
            return fail(FC_EINVAL, words[k].word, where);
        const int32_t c = entry->right, g = slot[c];
        if (g < e->n && e->context[g] == c) {
            if (words[k].total < words[e->word[g]].total) e->word[g] = k;
            continue;
        }
        slot[c] = (int32_t)e->n;
        e->context[e->n] = c;
        e->word[e->n++] = k;
    }
    return FC_OK;
}

/* 1: word j precedes word k in the list of words that end at one place. Words that begin later are
 * added to the front of it, and for one beginning the last word first. */
static int stands_before(const fc_word *words, int32_t j, int32_t k) {
    return words[j].from > words[k].from || (words[j].from == words[k].from && j < k);
}

/* The cheapest predecessor of a word with this left context, of equal ones the first in the list;
 * returns the cost of the path without the word. */
static int64_t best_before(const fc_lexicon *lexicon, const fc_word *words, const endings *e,
                           int64_t left, int32_t *before) {
    const int16_t *row = lexicon->matrix + left * lexicon->rights;
    int64_t best = NO_WAY;
    for (int64_t g = 0; g < e->n; g++) {
        const int32_t k = e->word[g];
        const int64_t cost = words[k].total + row[e->context[g]];
        if (cost > best || (cost == best && !stands_before(words, k, *before))) continue;
        best = cost;
        *before = k;
    }
    return best;
}

typedef struct {
    int32_t *head, *group, *slot;
} scratch;

/* Links the words first .. count - 1, which all begin after the same ends. */
static fc_status link_words(finder *f, int64_t first, int64_t at, const scratch *s) {
    const fc_lexicon *lexicon = f->lexicon;
    endings e = {0, s->group, s->group + f->room};
    const fc_status status = gather(lexicon, f->words, s->head[at], s->slot, &e, f->where);
    if (status != FC_OK) return status;
    int32_t *same =
        s->slot +
        lexicon->rights; /* for a left context, a word that has it; from the last word on */
    for (int64_t k = f->count - 1; k >= first; k--) {
        fc_word *w = f->words + k;
        const fc_entry_cost *entry = entry_of(lexicon, w->word);
        if (entry == NULL || entry->left >= lexicon->lefts)
            return fail(FC_EINVAL, w->word, f->where);
        const int32_t left = entry->left, twin = same[left];
        int64_t way;
        if (twin > k && twin < f->count && f->words[twin].next == -2 - left) {
            w->before = f->words[twin].before;
            way = f->words[twin].total;
        } else {
            way = at == 0 ? lexicon->matrix[left * lexicon->rights]
                          : best_before(lexicon, f->words, &e, left, &w->before);
        }
        same[left] = (int32_t)k;
        w->total = way;
        w->next = -2 - left; /* marks an unlinked word */
    }
    for (int64_t k = f->count - 1; k >= first; k--) {
        fc_word *w = f->words + k;
        const fc_entry_cost *entry = entry_of(lexicon, w->word);
        if (w->total != NO_WAY) w->total += entry->cost;
        w->next = s->head[w->end];
        s->head[w->end] = (int32_t)k;
    }
    return FC_OK;
}

/* The cheapest path through one text; *last is its last word, -1 if no path exists. */
static fc_status cheapest(finder *f, const scratch *s, int32_t *last, int64_t *cost) {
    f->count = 0;
    for (int64_t at = 0; at <= f->size; at++) s->head[at] = -1;
    for (int64_t at = 0; at < f->size; at++) {
        if (at > 0 && s->head[at] < 0) continue;
        const int64_t first = f->count;
        fc_status status = words_from(f, at);
        if (status == FC_OK) status = link_words(f, first, at, s);
        if (status != FC_OK) return status;
    }
    *last = -1;
    *cost = NO_WAY;
    int64_t end = f->size;
    while (end > 0 && s->head[end] < 0) end--;
    if (blanks_from(f, end).end < f->size) return FC_OK; /* no word covers the rest of the text */
    if (end == 0) {
        *cost = f->lexicon->matrix[0];
        return FC_OK;
    }
    endings e = {0, s->group, s->group + f->room};
    const fc_status status = gather(f->lexicon, f->words, s->head[end], s->slot, &e, f->where);
    if (status == FC_OK) *cost = best_before(f->lexicon, f->words, &e, 0, last);
    return status;
}

fc_status fc_best_words(const fc_lexicon *lexicon, int64_t B, const int64_t *offsets,
                        const uint8_t *text, const uint8_t *boundary, int64_t room, fc_word *words,
                        int32_t *head, int32_t *group, int32_t *slot, int64_t *row, int32_t *path,
                        int32_t *start, int32_t *end, int64_t *cost, int64_t *done,
                        int64_t *where) {
    *where = 0;
    if (B < 0 || offsets[0] != 0 || room < 0 || room > INT32_MAX || *done < 0) return FC_EINVAL;
    const scratch s = {head, group, slot};
    for (; *done < B; ++*done) {
        const int64_t b = *done, size = offsets[b + 1] - offsets[b];
        if (size < 0 || size >= INT32_MAX) return fail(FC_EINVAL, b, where);
        const uint8_t *known = boundary == NULL ? NULL : boundary + offsets[b] + b;
        finder f = {lexicon, size, text + offsets[b], known, room, 0, words, where};
        int32_t last;
        const fc_status status = cheapest(&f, &s, &last, cost + b);
        if (status != FC_OK) return status;
        int64_t n = 0;
        for (int32_t k = last; k >= 0; k = words[k].before) n++;
        row[b + 1] = row[b] + n;
        for (int32_t k = last; k >= 0; k = words[k].before) {
            const int64_t to = row[b] + --n;
            path[to] = words[k].word;
            start[to] = words[k].start;
            end[to] = words[k].end;
        }
    }
    return FC_OK;
}
