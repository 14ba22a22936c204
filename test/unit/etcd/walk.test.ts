import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { prefixRange } from "../../../etcd/keys.ts";
import type { Key, KeyRange } from "../../../etcd/keys.ts";
import type { Page } from "../../../etcd/store.ts";
import { Walk } from "../../../etcd/walk.ts";

/** Answers as etcd does: `count` is of the whole range. */
function read(keys: readonly Key[], { start, end }: KeyRange, limit: number): Page {
  const within = keys.filter((key) => key >= start && key < end);
  const entries = within.slice(0, limit).map((key) => ({ key, value: Buffer.alloc(0), modRevision: 1n }));
  return { entries, more: within.length > limit, count: within.length, revision: 1n } as unknown as Page;
}

/** @param limitOf the limit of each page, by its number */
function walkThrough(keys: readonly Key[], range: KeyRange, limitOf: (page: number) => number) {
  const walk = new Walk(range);
  const found: Key[] = [];
  let [pages, walked] = [0, 0];
  for (let next = walk.next; next; next = walk.next) {
    const limit = limitOf(pages);
    const page = read(keys, next, limit);
    found.push(...page.entries.map(({ key }) => key));
    pages += 1;
    walked += page.count;
    walk.turn(page, limit);
  }
  return { found, pages, walked };
}

/** Few characters, so that keys have much in common and are prefixes of each other; the highest and the lowest among them. */
const character = fc.constantFrom("a", "b", "/", "\0", "ÿ");
const text = (most: number) =>
  fc.array(character, { maxLength: most }).map((characters) => characters.join(""));
const store = fc
  .uniqueArray(text(9), { minLength: 0, maxLength: 600, size: "max" })
  .map((keys) => keys.toSorted());

describe("a walk through a range", () => {
  it("comes by every key of it once, in order, and by no other", () => {
    fc.assert(
      fc.property(
        store,
        text(3),
        text(3),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (...given) => {
          const [keys, one, other, limits] = given;
          const [start, end] = [one, other].toSorted() as [Key, Key];
          const { found } = walkThrough(keys, { start, end }, (page) => limits[page % limits.length]!);
          expect(found).toEqual(keys.filter((key) => key >= start && key < end));
        },
      ),
      { numRuns: 500 },
    );
  });

  it.each<[string, (index: number) => Key]>([
    ["numbered objects", (index) => `/r/configmaps/c/default/object-${index}`],
    ["objects with random ends", (index) => `/r/configmaps/c/default/object-${hash(index)}`],
    ["many namespaces", (index) => `/r/configmaps/c/ns-${hash(index % 300)}/object-${index}`],
    [
      "one large namespace among small ones",
      (index) =>
        index % 10 === 0 ? `/r/configmaps/c/${hash(index)}/one` : `/r/configmaps/c/default/object-${index}`,
    ],
  ])("stays cheap with %s", (_shape, keyOf) => {
    const keys = Array.from({ length: 20_000 }, (_, index) => keyOf(index)).toSorted();
    const limit = 100;
    const { found, pages, walked } = walkThrough(keys, prefixRange("/r/configmaps/c/"), () => limit);
    expect(found).toEqual(keys);
    // Page by page to the end it would be a hundred for each key.
    expect(walked / keys.length).toBeLessThan(35);
    expect(pages).toBeLessThan((1.5 * keys.length) / limit);
  });
});

/** Spreads numbers over all texts of eight hexadecimal digits. */
function hash(index: number): string {
  return (Math.imul(index + 1, 0x9e3779b1) >>> 0).toString(16).padStart(8, "0");
}
