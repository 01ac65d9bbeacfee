/* SPDX-License-Identifier: Apache-2.0
 *
 * Column files: bytes to string ids, and back.
 *
 * Strings are numbered in a hash table with linear probing. A slot holds 32 bits of the hash above
 * number + 1, so that nearly every comparison of bytes finds equal strings:
 *
 *   slot[i] = (hash & ~(2^32 - 1)) | (number + 1),   i = hash mod 2^k, then the next slots
 *
 * Every table has more slots than strings, so a search always reaches a free one. */

#include <string.h>

#include "fstcrf.h"

/* --- Distinct strings -------------------------------------------------------------------------- */

#define SPREAD 0x9E3779B97F4A7C15u /* 2^64 / golden ratio: multiplying carries every bit upwards */

static uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * SPREAD;
    return hash ^ (hash >> 32);
}

/* Eight bytes at a time; the last words overlap the ones before. */
static uint64_t hash_of(const uint8_t *text, int64_t size) {
    uint64_t word = 0, hash = (uint64_t)size;
    if (size >= 8) {
        for (int64_t i = 0; i + 8 < size; i += 8) {
            memcpy(&word, text + i, 8);
            hash = mixed(hash, word);
        }
        memcpy(&word, text + size - 8, 8);
    } else if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, text, 4);
        memcpy(&high, text + size - 4, 4);
        word = (uint64_t)high << 32 | low;
    } else if (size > 0) {
        word = (uint64_t)text[0] << 16 | (uint64_t)text[size / 2] << 8 | text[size - 1];
    }
    return mixed(mixed(hash, word), 0);
}

/* The number of a string, or ~(its free slot). */
static int64_t search(const fc_strings *s, uint64_t hash, const uint8_t *text, int64_t size) {
    const uint64_t mask = (uint64_t)s->slots - 1, tag = hash >> 32;
    uint64_t i = hash & mask;
    for (; s->slot[i] != 0; i = (i + 1) & mask) {
        if (s->slot[i] >> 32 != tag) continue;
        const int64_t number = (int64_t)(s->slot[i] & 0xffffffffu) - 1;
        const int64_t begin = s->offset[number];
        if (s->offset[number + 1] - begin == size &&
            memcmp(s->text + begin, text, (size_t)size) == 0)
            return number;
    }
    return ~(int64_t)i;
}

static int sound(const fc_strings *s) {
    return s->slots > s->room && (s->slots & (s->slots - 1)) == 0 && s->count >= 0 &&
           s->count <= s->room && s->room < INT32_MAX && s->offset[0] == 0 &&
           s->offset[s->count] <= s->space;
}

fc_status fc_hash_strings(fc_strings *s, int64_t *where) {
    *where = -1;
    if (!sound(s)) return FC_EINVAL;
    memset(s->slot, 0, (size_t)s->slots * sizeof *s->slot);
    for (int64_t k = 0; k < s->count; k++) {
        const int64_t begin = s->offset[k], size = s->offset[k + 1] - begin;
        *where = k;
        if (size < 0 || begin + size > s->space) return FC_EINVAL;
        const uint64_t hash = hash_of(s->text + begin, size);
        const int64_t place = search(s, hash, s->text + begin, size);
        if (place >= 0) return FC_EINVAL;
        s->slot[~place] = (hash >> 32 << 32) | (uint64_t)(k + 1);
    }
    return FC_OK;
}

fc_status fc_find_strings(const fc_strings *s, int64_t n, const int64_t *offset,
                          const uint8_t *text, int64_t size, int64_t *number) {
    if (!sound(s)) return FC_EINVAL;
    for (int64_t k = 0; k < n; k++) {
        const int64_t begin = offset[k], length = offset[k + 1] - begin;
        if (begin < 0 || length < 0 || begin + length > size) return FC_EINVAL;
        const int64_t found = search(s, hash_of(text + begin, length), text + begin, length);
        number[k] = found < 0 ? -1 : found;
    }
    return FC_OK;
}

/* The number of a string, which is added if it is new; -1 if there is no room. */
static int64_t intern(fc_strings *s, const uint8_t *text, int64_t size) {
    const uint64_t hash = hash_of(text, size);
    const int64_t place = search(s, hash, text, size);
    if (place >= 0) return place;
    const int64_t begin = s->offset[s->count];
    if (s->count == s->room || size > s->space - begin) return -1;
    memcpy(s->text + begin, text, (size_t)size);
    s->offset[s->count + 1] = begin + size;
    s->slot[~place] = (hash >> 32 << 32) | (uint64_t)(s->count + 1);
    return s->count++;
}

/* --- Lines to numbers -------------------------------------------------------------------------- */

static int is_blank(uint8_t byte) { return byte == ' ' || byte == '\t'; }

static int starts_with(const uint8_t *p, const uint8_t *end, const uint8_t *text, int64_t size) {
    return end - p >= size && memcmp(p, text, (size_t)size) == 0;
}

static int opens_document(const fc_lines *l, const uint8_t *p, const uint8_t *end) {
    if (l->n_mark == 0 || !starts_with(p, end, l->mark, l->n_mark)) return 0;
    const uint8_t *rest = p + l->n_mark;
    return rest == end || is_blank(*rest) ||
           (l->n_separator > 0 && starts_with(rest, end, l->separator, l->n_separator));
}

static const uint8_t *field_end(const fc_lines *l, const uint8_t *p, const uint8_t *end) {
    if (l->n_separator == 0) {
        while (p < end && !is_blank(*p)) p++;
        return p;
    }
    while (p < end && !starts_with(p, end, l->separator, l->n_separator)) p++;
    return p;
}

static const uint8_t *skip_blanks(const uint8_t *p, const uint8_t *end) {
    while (p < end && is_blank(*p)) p++;
    return p;
}

/* Looks up the fields of one row; the id of the row's field c is written to ids[c * lines + token]. */
static fc_status read_row(fc_lines *l, const uint8_t *p, const uint8_t *end) {
    const int64_t blanks = l->n_separator == 0;
    int64_t fields = 0, empty = -1;
    int full = 0;
    for (;; fields++) {
        if (blanks && (p = skip_blanks(p, end)) == end) break;
        const uint8_t *stop = field_end(l, p, end);
        if (stop == p && empty < 0) empty = fields;
        if (fields < l->C && !full) {
            const int64_t number = intern(l->strings + fields, p, stop - p);
            full = number < 0;
            l->ids[fields * l->lines + l->tokens] = (int32_t)number;
        }
        if (stop == end) {
            fields++;
            break;
        }
        p = stop + l->n_separator;
    }
    l->found = fields != l->C ? fields : ~empty;
    if (fields != l->C || empty >= 0) return FC_EROW;
    return full ? FC_EFULL : FC_OK;
}

fc_status fc_read_lines(fc_lines *l) {
    if (l->C < 1 || l->n_separator < 0 || l->n_mark < 0 || l->line < 0 || l->at < 0 ||
        (l->size > 0 && l->text[l->size - 1] != '\n'))
        return FC_EINVAL;
    for (int64_t c = 0; c < l->C; c++)
        if (!sound(l->strings + c)) return FC_EINVAL;
    while (l->at < l->size) {
        if (l->line >= l->lines) return FC_EINVAL;
        const uint8_t *p = l->text + l->at;
        const uint8_t *end = memchr(p, '\n', (size_t)(l->size - l->at));
        if (skip_blanks(p, end) == end) {
            if (l->inside != FC_BETWEEN) l->blank[l->sentences - 1]++;
            if (l->inside == FC_SENTENCE) l->inside = FC_BEHIND;
        } else if (opens_document(l, p, end)) {
            l->header[l->headers++] = l->line;
            l->inside = FC_BETWEEN;
        } else {
            const fc_status status = read_row(l, p, end);
            if (status != FC_OK) return status;
            if (l->inside != FC_SENTENCE) {
                l->start[l->sentences] = l->tokens;
                l->blank[l->sentences++] = 0;
                l->inside = FC_SENTENCE;
            }
            l->token_line[l->tokens++] = l->line;
        }
        l->at = end + 1 - l->text;
        l->line++;
    }
    return FC_OK;
}

/* --- Forms in their text ----------------------------------------------------------------------- */

/* Bytes of the white space (by Unicode) that begins at p; 0: no white space. */
static int64_t space_at(const uint8_t *p, const uint8_t *end) {
    const int64_t left = end - p;
    if (left >= 1 && ((p[0] >= 0x09 && p[0] <= 0x0d) || (p[0] >= 0x1c && p[0] <= 0x20))) return 1;
    if (left >= 2 && p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0)) return 2;
    if (left < 3) return 0;
    const uint32_t three = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
    const int is = three == 0xe19a80 || (three >= 0xe28080 && three <= 0xe2808a) ||
                   three == 0xe280a8 || three == 0xe280a9 || three == 0xe280af ||
                   three == 0xe2819f || three == 0xe38080;
    return is ? 3 : 0;
}

static int64_t characters(const uint8_t *p, int64_t size) {
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) n += (p[i] & 0xc0) != 0x80;
    return n;
}

/* Writes the text of the forms of sentence s; returns its size. */
static int64_t written(const fc_surface *f, int64_t s) {
    uint8_t *out = f->scratch;
    for (int64_t m = f->surface[s]; m < f->surface[s + 1]; m++) {
        memcpy(out, f->forms + f->begin[m], (size_t)f->size[m]);
        out += f->size[m];
        if (f->spaced[m]) *out++ = ' ';
    }
    for (int64_t n = 1; n <= 3; n++)
        if (out - f->scratch >= n && space_at(out - n, out) == n) {
            out -= n;
            n = 0;
        }
    return out - f->scratch;
}

/* Whether the text has the forms of sentence s in order; writes the positions of its tokens. */
static int located(const fc_surface *f, int64_t s, const uint8_t *text, int64_t size) {
    const uint8_t *p = text, *end = text + size;
    int64_t at = f->position, token = f->start[s];
    for (int64_t m = f->surface[s]; m < f->surface[s + 1]; m++) {
        const uint8_t *form = f->forms + f->begin[m];
        int64_t space;
        while (!starts_with(p, end, form, f->size[m]) && (space = space_at(p, end)) > 0) {
            p += space;
            at++;
        }
        if (!starts_with(p, end, form, f->size[m])) return 0;
        const int64_t after = at + characters(form, f->size[m]);
        if (f->covered[m] > f->start[s + 1] - token) return 0;
        for (int64_t k = 0; k < f->covered[m]; k++, token++) {
            f->chars[2 * token] = (int32_t)at;
            f->chars[2 * token + 1] = (int32_t)after;
        }
        p += f->size[m];
        at = after;
    }
    return token == f->start[s + 1];
}

/* Whether the offsets, and the bytes of text and forms of sentence s, are in bounds. */
static int inside(const fc_surface *f, int64_t s) {
    int64_t bytes = 0;
    if (f->start[s] < 0 || f->start[s] > f->start[s + 1] || f->start[s + 1] > f->N) return 0;
    if (f->surface[s] < 0 || f->surface[s] > f->surface[s + 1] || f->surface[s + 1] > f->M)
        return 0;
    for (int64_t m = f->surface[s]; m < f->surface[s + 1]; m++) {
        const int64_t size = f->size[m];
        if (size < 0 || size > f->n_forms || f->begin[m] < 0 || f->begin[m] > f->n_forms - size ||
            f->covered[m] < 0)
            return 0;
        bytes += size + 1;
    }
    if (f->text_size[s] < 0) return bytes <= f->n_scratch;
    return f->text_begin[s] >= 0 && f->text_size[s] <= f->n_text &&
           f->text_begin[s] <= f->n_text - f->text_size[s];
}

fc_status fc_locate_forms(fc_surface *f, int64_t *where) {
    *where = -1;
    if (f->S < 0 || f->M < 0 || f->N < 0 || f->position < 0 || f->position > INT32_MAX)
        return FC_EINVAL;
    for (int64_t s = 0; s < f->S; s++) {
        *where = s;
        if (!inside(f, s)) return FC_EINVAL;
        const int own = f->text_size[s] < 0;
        const int64_t size = own ? written(f, s) : f->text_size[s];
        const uint8_t *text = own ? f->scratch : f->text + f->text_begin[s];
        if (f->opens[s]) f->position = 0;
        const int64_t after = f->position + characters(text, size) + 1;
        if (after > INT32_MAX) return FC_EFULL;
        if (!located(f, s, text, size))
            memset(f->chars + 2 * f->start[s], 0xff,
                   (size_t)(f->start[s + 1] - f->start[s]) * 2 * sizeof *f->chars);
        f->position = after;
    }
    return FC_OK;
}

/* --- Numbers to lines -------------------------------------------------------------------------- */

typedef struct {
    int64_t begin, size; /* size < 0: the id is invalid, or the string is outside the text */
} extent;

/* The string of token n. Its numbers are read once: they may change between two reads. */
static extent string_at(const fc_column *column, int64_t n) {
    const int32_t id = column->ids[n];
    if (id < 0 || id >= column->count) return (extent){0, -1};
    const int64_t begin = column->offset[id], end = column->offset[id + 1];
    if (begin < 0 || end < begin || end > column->size) return (extent){0, -1};
    return (extent){begin, end - begin};
}

fc_status fc_write_rows(int64_t N, int64_t C, const fc_column *column, int64_t n_separator,
                        const uint8_t *separator, const int32_t *breaks, int64_t *size,
                        uint8_t *out, int64_t *where) {
    const int64_t room = out == NULL ? INT64_MAX : *size;
    int64_t at = 0;
    *where = -1;
    if (N < 0 || C < 1 || n_separator < 0) return FC_EINVAL;
    for (int64_t n = 0; n < N; n++) {
        *where = n;
        for (int64_t c = 0; c < C; c++) {
            const extent from = string_at(column + c, n);
            const int64_t between = c + 1 < C ? n_separator : 0;
            if (from.size < 0 || from.size + between > room - at) return FC_EINVAL;
            if (out != NULL) {
                memcpy(out + at, column[c].text + from.begin, (size_t)from.size);
                memcpy(out + at + from.size, separator, (size_t)between);
            }
            at += from.size + between;
        }
        const int64_t ends = 1 + (int64_t)breaks[n];
        if (ends < 1 || ends > room - at) return FC_EINVAL;
        if (out != NULL) memset(out + at, '\n', (size_t)ends);
        at += ends;
    }
    if (out == NULL) *size = at;
    return at == *size ? FC_OK : FC_EINVAL;
}
