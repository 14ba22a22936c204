import { prefixEnd, successor } from "./keys.ts";
import type { Key, KeyRange } from "./keys.ts";
import type { Page } from "./store.ts";

/**
 * Keys that are asked of at once, in pages: more make etcd walk too far, fewer leave pages nearly empty. Between the two
 * lies a factor of 16, by which a digit more or less changes them.
 */
const MOST_PAGES = 32;
const FEWEST_PAGES = 2;

/**
 * Which part of a range each page is to be asked of. etcd walks through all keys of what it is asked for, whatever the
 * limit, under a lock that writers wait for (etcd v3.6.8, server/storage/mvcc/index.go, `Revisions`): page by page to the
 * range's end, this would grow with the square of its keys. So pages of a large range are asked of the keys that begin
 * like the next one, by as many characters as it takes to be few. Pure.
 */
export class Walk {
  readonly #end: Key;
  #start: Key;
  #to: Key;
  /** How many characters the keys that are asked for have in common with the first; 0: the whole rest. */
  #common = 0;
  /** Keys that were found since `common` was last applied anew. */
  #found = 0;
  #widenBy = 1;

  constructor({ start, end }: KeyRange) {
    this.#start = start;
    this.#end = end;
    this.#to = end;
  }

  /** What to ask for; undefined when all of the range has been. */
  get next(): KeyRange | undefined {
    return this.#start < this.#end ? { start: this.#start, end: this.#to } : undefined;
  }

  /** @param page what was found in `next` with this limit */
  turn({ entries, more, count }: Page, limit: number): void {
    const [first, last] = [entries[0], entries.at(-1)];
    this.#found += entries.length;
    if (more && last) {
      this.#start = successor(last.key);
      if (count > MOST_PAGES * limit) this.#common = this.#narrowed(first!.key, last.key);
    } else {
      this.#start = this.#to;
      if (this.#found < FEWEST_PAGES * limit) this.#common = Math.max(0, this.#common - this.#widenBy);
      // Where there is nothing, the next key may be far away.
      this.#widenBy = this.#found > 0 ? 1 : this.#widenBy * 2;
      this.#found = 0;
    }
    this.#to = this.#stop();
  }

  /** At first as much as a page's keys have in common, which is more than those of many pages have. */
  #narrowed(first: Key, last: Key): number {
    return this.#common === 0 ? Math.max(1, commonLength(first, last) - 1) : this.#common + 1;
  }

  #stop(): Key {
    if (this.#common === 0) return this.#end;
    const stop = prefixEnd(this.#start.slice(0, this.#common));
    // After the highest of all characters there is no end.
    return stop > this.#start && stop < this.#end ? stop : this.#end;
  }
}

function commonLength(one: Key, other: Key): number {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length += 1;
  return length;
}
