/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts: rows of numbers, lines, dictionaries. */

#include "input.h"

/* --- Sparse rows
 * -------------------------------------------------------------------------------
 */

/* Some of the sums of rows, and the same the other way round. */
static void gather_cells(int64_t N, int64_t R, int64_t W, const int64_t *indptr,
                         const int32_t *index, const float *x, const double *table,
                         const double *sums) {
    const int64_t cells = below(12), K = below(6), size = below(9);
    const int64_t *first = starts(N, cells);
    const int32_t *slot = indices(cells, W);
    int64_t where = 0;
    double *out = NEW(double, cells);
    if (N > 0 && fc_gather_cells(N, R, W, indptr, index, x, table, first, slot, out, NEW(double, W),
                                 &where) == FC_OK)
        for (int64_t n = 0; n < N; n++)
            for (int64_t c = first[n]; c < first[n + 1]; c++) {
                const double full = sums[n * W + slot[c]];
                must(!(fabs(out[c] - full) > 1e-10 * (1.0 + magnitude * 16.0)), "a cell differs");
            }
    int64_t *token = NEW(int64_t, K), *place = NEW(int64_t, K);
    for (int64_t k = 0; k < K; k++) token[k] = index_below(N), place[k] = index_below(W);
    int32_t *number = indices(R * W, size + 2);
    for (int64_t i = 0; i < R * W; i++)
        if (number[i] > size) number[i] = -1;
    fc_scatter(K, token, place, values(K), N, R, W, indptr, index, x, number, size,
               ZEROS(double, size), &where);
}

void rows(void) {
    const int64_t N = below(8), R = 1 + below(9), W = 8 * (1 + below(2)), entries = below(20);
    const int64_t S = 1 + below(W), listed = 1 + below(12);
    int64_t where = 0, count = 0, *indptr = starts(N, entries);
    int32_t *index = NEW(int32_t, entries);
    float *x = below(2) ? NEW(float, entries) : NULL;
    for (int64_t k = 0; k < entries; k++) index[k] = index_below(R);
    for (int64_t k = 0; x != NULL && k < entries; k++) x[k] = (float)(below(64) - 32) / 4.0F;
    if (fc_check_rows(N, R, entries, indptr, index, &where) != FC_OK) return;
    double *full = values(R * W), *sums = NEW(double, N *W);
    fc_gather(N, R, W, indptr, index, x, full, sums);
    gather_cells(N, R, W, indptr, index, x, full, sums);
    int32_t *place = NEW(int32_t, R);
    for (int64_t r = 0; r < R; r++)
        place[r] = below(2) ? (int32_t)count++ : ~(int32_t)below(listed);
    fc_entry *entry = NEW(fc_entry, listed);
    for (int64_t k = 0; k < listed; k++) {
        const int64_t slot = below(W);
        entry[k] = (fc_entry){value(), k + 1 == listed || below(2) ? ~slot : slot};
    }
    const double *table = values(count * W);
    const fc_packed packed = {.R = R,
                              .W = W,
                              .rows = count,
                              .entries = listed,
                              .place = place,
                              .table = table,
                              .entry = entry};
    fc_gather_packed(N, &packed, indptr, index, x, S, (int)below(2), NEW(double, N *S),
                     NEW(double, W));
    const fc_axis axis = {.S = S, .contexts = 1, .score = values(S * S)};
    const fc_factor factor = {.rows = 1, .width = S, .moving = 1, .value = NEW(double, N *S)};
    const fc_machine machine = {.axes = 1,
                                .factors = 1,
                                .outer = 1,
                                .S = S,
                                .axis = &axis,
                                .factor = &factor,
                                .initial = values(S),
                                .final = values(S)};
    if (fc_check_machine(&machine, &where) != FC_OK) return;
    fc_sentence s = {.machine = &machine, .packed = &packed, .room = N};
    s.node = (double *)(uintptr_t)factor.value, s.path = NEW(int32_t, N);
    s.posterior = NEW(double, N *S + W);
    const int64_t work = FC_HEAD + fc_machine_work(&machine, 1, N);
    s.work[0] = NEW(double, work), s.work[1] = NEW(double, work);
    for (int k = 0; k < 2; k++)
        fc_ask_sentence(&s, N, entries, indptr, index, x, below(8), (int)below(2));
}

/* --- Texts
 * -------------------------------------------------------------------------------------
 */

static fc_strings draw_strings(const fc_strings *old, int64_t more) {
    fc_strings s = {.room = 4 * (old->count + 1), .space = more + 16, .count = old->count};
    const int64_t used = old->count > 0 ? old->offset[old->count] : 0;
    s.space += 2 * used;
    for (s.slots = 2; s.slots <= 2 * s.room;) s.slots *= 2;
    s.slot = NEW(uint64_t, s.slots), s.offset = NEW(int64_t, s.room + 1);
    s.text = NEW(uint8_t, s.space);
    memset(s.offset, 0, (size_t)(s.room + 1) * sizeof *s.offset);
    if (old->count > 0) {
        memcpy(s.offset, old->offset, (size_t)(old->count + 1) * sizeof *s.offset);
        memcpy(s.text, old->text, (size_t)used);
    }
    int64_t where = 0;
    must(fc_hash_strings(&s, &where) == FC_OK, "a string is there twice");
    return s;
}

void lines(void) {
    static const char *const separators[] = {"", "\t", " ", "||"}, *const marks[] = {"", "#",
                                                                                     "-D-"};
    const char *separator = separators[below(4)], *mark = marks[below(3)];
    const int64_t C = 1 + below(3);
    fc_strings strings[3];
    const fc_strings none = {0};
    for (int64_t c = 0; c < C; c++) strings[c] = draw_strings(&none, 0);
    size_t left = 0;
    const uint8_t *data = input_rest(&left);
    const int64_t size = (int64_t)left + 1;
    uint8_t *text = NEW(uint8_t, size);
    memcpy(text, data, left);
    text[left] = '\n';
    fc_lines r = {.size = size, .C = C, .strings = strings};
    for (int64_t i = 0; i < size; i++) r.lines += text[i] == '\n';
    r.text = text;
    r.n_separator = (int64_t)strlen(separator), r.separator = (const uint8_t *)separator;
    r.n_mark = (int64_t)strlen(mark), r.mark = (const uint8_t *)mark;
    r.ids = NEW(int32_t, C *r.lines), r.token_line = NEW(int64_t, r.lines);
    r.start = NEW(int64_t, r.lines), r.blank = NEW(int32_t, r.lines);
    r.header = NEW(int64_t, r.lines);
    fc_status status;
    while ((status = fc_read_lines(&r)) == FC_EFULL && room_used() < ROOM / 4)
        for (int64_t c = 0; c < C; c++) strings[c] = draw_strings(&strings[c], size);
    if (status != FC_OK) return;
    fc_column column[3];
    for (int64_t c = 0; c < C; c++)
        column[c] = (fc_column){.count = strings[c].count,
                                .size = strings[c].offset[strings[c].count],
                                .ids = r.ids + c * r.lines,
                                .offset = strings[c].offset,
                                .text = strings[c].text};
    int32_t *breaks = NEW(int32_t, r.tokens);
    for (int64_t n = 0; n < r.tokens; n++) breaks[n] = 0;
    const int64_t asked = below(6), *begins = starts(asked, asked < size ? asked : size);
    fc_find_strings(&strings[0], asked, begins, text, size, NEW(int64_t, asked));
    int64_t bytes = 0, where = 0;
    const uint8_t *tab = (const uint8_t *)"\t";
    must(fc_write_rows(r.tokens, C, column, 1, tab, breaks, &bytes, NULL, &where) == FC_OK,
         "no rows");
    uint8_t *out = NEW(uint8_t, bytes);
    must(fc_write_rows(r.tokens, C, column, 1, tab, breaks, &bytes, out, &where) == FC_OK,
         "other rows");
}

void words(void) {
    enum { KEYS = 8 };
    const int64_t n = below(KEYS), keys_room = 4 * KEYS;
    uint8_t *keys = NEW(uint8_t, keys_room);
    int64_t *offsets = NEW(int64_t, n + 1), size = 0, where = 0, count = 0, last = 0;
    int32_t *number = NEW(int32_t, n);
    const int64_t entries = 1 + n;
    offsets[0] = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t length = 1 + below(3);
        for (int64_t i = 0; i < length; i++) keys[offsets[k] + i] = (uint8_t)grab(1);
        if (k > 0 && below(8)) keys[offsets[k]] = (uint8_t)(keys[offsets[k - 1]] + 1 + below(4));
        offsets[k + 1] = offsets[k] + length;
        number[k] = (int32_t)(k << 8 | 1);
    }
    const int64_t units_room = 700;
    fc_unit *unit = NEW(fc_unit, units_room);
    uint8_t *used = NEW(uint8_t, units_room);
    memset(unit, 0, (size_t)units_room * sizeof *unit);
    memset(used, 0, (size_t)units_room);
    if (fc_build_trie(n, offsets, keys, number, units_room, unit, used, NEW(int64_t, 4 * (n + 257)),
                      &size, &where) != FC_OK)
        return;
    fc_unit *own =
        NEW(fc_unit, size); /* as a file has it, now and then one that somebody changed */
    memcpy(own, unit, (size_t)size * sizeof *own);
    for (int64_t k = below(4); k > 1 && size > 0; k--) {
        const int64_t place = (int64_t)(grab(2) % (uint64_t)size);
        if (k & 1)
            own[place].base = (int32_t)grab(4);
        else
            own[place].check = (uint32_t)grab(4);
    }
    fc_entry_cost *entry = NEW(fc_entry_cost, entries), *unknown = NEW(fc_entry_cost, 2);
    const int64_t contexts = 1 + below(3);
    for (int64_t k = 0; k < entries; k++)
        entry[k] = (fc_entry_cost){.left = (uint16_t)index_below(contexts),
                                   .right = (uint16_t)index_below(contexts),
                                   .cost = (int16_t)grab(2)};
    for (int64_t k = 0; k < 2; k++)
        unknown[k] =
            (fc_entry_cost){.left = (uint16_t)index_below(contexts), .cost = (int16_t)grab(2)};
    int16_t *matrix = NEW(int16_t, contexts *contexts);
    for (int64_t k = 0; k < contexts * contexts; k++) matrix[k] = (int16_t)(grab(1) - 128);
    uint32_t *character = NEW(uint32_t, 128);
    const uint32_t kinds = (uint32_t)grab(4);
    for (int64_t k = 0; k < 128; k++)
        character[k] = kinds ^ (uint32_t)(k == below(128) ? grab(4) : 0);
    int64_t *ends = NEW(int64_t, 3);
    ends[0] = 0, ends[1] = 1, ends[2] = 2;
    const fc_dictionary dictionary = {
        .units = size, .entries = entries, .unit = own, .entry = entry};
    const fc_lexicon lexicon = {.dictionaries = 1,
                                .dictionary = &dictionary,
                                .characters = 128,
                                .character = character,
                                .kinds = 2,
                                .unknowns = 2,
                                .first = entries,
                                .unknown = ends,
                                .unknown_entry = unknown,
                                .rights = contexts,
                                .lefts = contexts,
                                .matrix = matrix,
                                .longest_run = 24};
    size_t left = 0;
    const uint8_t *data = input_rest(&left);
    const int64_t bytes = (int64_t)(left < 48 ? left : 48), room_words = 512;
    uint8_t *text = NEW(uint8_t, bytes), *boundary = NEW(uint8_t, bytes + 1);
    memcpy(text, data, (size_t)bytes);
    for (int64_t i = 0; i <= bytes; i++) boundary[i] = bytes ? text[i % bytes] % 11 == 0 : 0;
    const uint8_t *limits = bytes & 1 ? boundary : NULL;
    int32_t *found = NEW(int32_t, bytes);
    fc_word *word = NEW(fc_word, room_words);
    fc_find_words(&lexicon, bytes, text, limits, room_words, word, NEW(int32_t, bytes + 1), &count,
                  &last, &where);
    int64_t bounds[2] = {0, bytes}, rows_of[2] = {0, 0}, cost[1], done = 0;
    int32_t *slot = NEW(int32_t, 2 * contexts);
    memset(slot, 0, (size_t)(2 * contexts) * sizeof *slot);
    fc_best_words(&lexicon, 1, bounds, text, limits, room_words, word, NEW(int32_t, bytes + 1),
                  NEW(int32_t, 2 * room_words), slot, rows_of, found, NEW(int32_t, bytes),
                  NEW(int32_t, bytes), cost, &done, &where);
}

/* --- Places of tokens in a text
 * ------------------------------------------------------------------------ */

/* Mostly letters that occur in the others, too. */
static uint8_t *letters(int64_t n) {
    static const uint8_t odd[] = {0xc2, 0xa0, 0xe2, 0x80, 0x83, '\n', '\t', 0xff};
    uint8_t *x = NEW(uint8_t, n);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t kind = grab(1);
        x[i] = kind < 128 ? (uint8_t)('a' + kind % 3) : kind < 192 ? ' ' : odd[kind % 8];
    }
    return x;
}

void forms(void) {
    fc_surface f = {.S = 1 + below(3), .M = below(8), .N = below(10)};
    f.n_forms = below(24), f.n_text = below(40), f.n_scratch = below(40);
    f.surface = starts(f.S, f.M), f.start = starts(f.S, f.N);
    int64_t *begin = NEW(int64_t, f.M), *size = NEW(int64_t, f.M), *covered = NEW(int64_t, f.M);
    for (int64_t m = 0; m < f.M; m++) {
        begin[m] = index_below(f.n_forms), size[m] = index_below(4);
        covered[m] = below(8) ? 1 : index_below(3);
    }
    int64_t *text_begin = NEW(int64_t, f.S), *text_size = NEW(int64_t, f.S), where = 0;
    for (int64_t s = 0; s < f.S; s++)
        text_begin[s] = index_below(f.n_text), text_size[s] = below(2) ? -1 : index_below(24);
    f.begin = begin, f.size = size, f.covered = covered;
    f.text_begin = text_begin, f.text_size = text_size;
    f.spaced = bits(f.M), f.opens = bits(f.S);
    f.forms = letters(f.n_forms), f.text = letters(f.n_text);
    f.scratch = NEW(uint8_t, f.n_scratch), f.chars = NEW(int32_t, 2 * f.N);
    f.position = below(16) == 15 ? (int64_t)grab(8) : below(100);
    fc_locate_forms(&f, &where);
}

/* --- Attributes
 * ---------------------------------------------------------------------------------------- */

/* Keys that increase, mostly, and their rows. */
static void draw_keys(int64_t n, uint64_t **key, int32_t **row) {
    *key = NEW(uint64_t, n), *row = indices(n, n);
    for (int64_t k = 0; k < n; k++)
        (*key)[k] = below(16) == 15 ? grab(8) : (k > 0 ? (*key)[k - 1] : 0) + (uint64_t)below(8);
}

/* A hash table of the keys, with a free slot. */
static fc_slot *table_of(int64_t n, const uint64_t *key, const int32_t *row, int64_t *size,
                         int64_t *shift) {
    *size = 2, *shift = 63;
    while (*size <= n) *size *= 2, --*shift;
    fc_slot *slot = NEW(fc_slot, *size);
    must(fc_fill_slots(n, key, row, *size, *shift, slot) == FC_OK, "no table");
    return slot;
}

void lookup(void) {
    const int64_t B = below(4), K = 1 + below(2), F = 1 + below(3), reach = below(4);
    const int64_t stride = below(16), *offsets = starts(B, stride), M = below(5);
    const int32_t *codes = indices(K * stride, 20);
    fc_family *families = NEW(fc_family, F);
    int64_t where = 0;
    for (int64_t f = 0; f < F; f++) {
        const int64_t terms = below(3), n = below(9);
        int64_t bits_of = 0, *width = NEW(int64_t, terms), *limit = NEW(int64_t, terms);
        fc_term *term = NEW(fc_term, terms);
        for (int64_t m = 0; m < terms; m++) {
            term[m] = (fc_term){.column = index_below(K), .offset = below(7) - 3};
            term[m].pads = below(2), term[m].width = below(8);
            bits_of += term[m].width, width[m] = term[m].width, limit[m] = 1 + below(100);
        }
        fc_family *g = &families[f];
        uint64_t *key;
        int32_t *row;
        draw_keys(n, &key, &row);
        fc_check_keys(n, key, terms, width, limit, &where);
        *g = (fc_family){.firing = (fc_firing)below(4), .M = terms, .term = term, .size = n};
        switch (below(3)) {
            case 0: /* an array over all keys: callers see to its size */
                if (bits_of > 10) return;
                g->size = (int64_t)1 << bits_of, g->direct = indices(g->size, 9);
                break;
            case 1: g->slot = table_of(n, key, row, &g->size, &g->shift); break;
            default: g->key = key, g->row = row;
        }
    }
    /* Numbers are of the width that the families give them, as callers see to. */
    for (int64_t f = 0; f < F; f++)
        for (int64_t m = 0; m < families[f].M && families[f].direct != NULL; m++) {
            const fc_term *t = &families[f].term[m];
            if (t->column < 0 || t->column >= K) return;
            const int64_t limit = (int64_t)1 << t->width;
            for (int64_t n = 0; n < stride; n++)
                if (codes[t->column * stride + n] >= limit) return;
            if (2 * reach > limit) return;
        }
    int32_t *found = NEW(int32_t, stride *F);
    int64_t *bounds = below(2) ? NEW(int64_t, stride + 1) : NULL;
    fc_find_rows(B, offsets, K, stride, codes, reach, F, families, found, bounds, &where);
    int64_t *token = NEW(int64_t, M);
    for (int64_t i = 0; i < M; i++) token[i] = index_below(stride);
    int32_t *before = indices(M, 4), *after = indices(M, 4), *own = NEW(int32_t, K *M);
    for (int64_t i = 0; i < K * M; i++) own[i] = (int32_t)below(2) - (int32_t)(below(8) == 7);
    fc_find_rows_at(M, token, before, after, own, K, stride, codes, reach, F, families,
                    NEW(int32_t, M *F), below(2) ? NEW(int64_t, M + 1) : NULL, &where);
}

/* --- Phrases
 * ------------------------------------------------------------------------------------------- */

static void draw_trie(fc_phrases *p) {
    const int64_t n = below(6);
    *p = (fc_phrases){.strings = below(5), .nodes = 1 + below(6), .weights = below(8)};
    int32_t *first = NEW(int32_t, p->strings), *row = NEW(int32_t, n);
    for (int64_t k = 0; k < p->strings; k++) first[k] = (int32_t)below(p->nodes);
    for (int64_t k = 0; k < n; k++) row[k] = (int32_t)below(p->nodes);
    int64_t *ends = ZEROS(int64_t, p->nodes + 1);
    for (int64_t k = 1; k <= p->nodes; k++)
        ends[k] = k < p->nodes ? ends[k - 1] + below(p->weights + 1 - ends[k - 1]) : p->weights;
    uint64_t *key = NEW(uint64_t, n);
    for (int64_t k = 0; k < n; k++) key[k] = (uint64_t)below(p->nodes * (p->strings + 1) + 1);
    p->first = first, p->row = ends, p->slot = table_of(n, key, row, &p->size, &p->shift);
    p->label = indices(p->weights, 4), p->weight = indices(p->weights, 9);
}

void phrases(void) {
    const int64_t K = 1 + below(2), B = 1 + below(3), N = below(14), D = 1 + below(4);
    const int64_t *offset = starts(B, N), P = 8;
    int64_t where = 0;
    fc_phrases *tries = NEW(fc_phrases, K);
    for (int64_t k = 0; k < K; k++) draw_trie(&tries[k]);
    int32_t *token = indices(K * N, 6), *node = NEW(int32_t, K * N * D);
    int64_t *extra = NEW(int64_t, B + 1);
    if (fc_find_phrases(K, tries, B, offset, token, D, node, extra, &where) != FC_OK) return;
    int32_t *cell = NEW(int32_t, extra[B]), *what = NEW(int32_t, extra[B]);
    if (below(8) == 7 && N > 0) node[below(K * N * D)] = index_below(6);
    fc_phrase_weights(K, tries, B, offset, D, P, node, extra, cell, what, &where);
}
