import { prefixEnd, successor } from "./keys.ts";
import type { Key, KeyRange } from "./keys.ts";
import type { Page } from "./store.ts";

/** So many keys may be walked through for each that a page has room for. */
const WALKED_PER_KEY = 16;
/** A page that is filled to less than this share was asked of too narrow a range. */
const SPARSE = 1 / 4;

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
    if (more && last) {
      this.#start = successor(last.key);
      if (count > WALKED_PER_KEY * limit) {
        this.#common = Math.max(this.#common + 1, commonLength(first!.key, last.key));
      }
    } else {
      this.#start = this.#to;
      if (count < SPARSE * limit) this.#common = Math.max(0, this.#common - this.#widenBy);
    }
    // Where there is nothing, the next key may be far away.
    this.#widenBy = entries.length > 0 ? 1 : this.#widenBy * 2;
    this.#to = this.#stop();
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
