import { expect, test } from "vitest";
import { generations } from "../../../kubernetes/generations.ts";

const owned = (key: string, ...owners: string[]) => ({ key, uid: key, owners });

test("what owns nothing goes first, then what owned only that", () => {
  const objects = [
    owned("grandchild", "child"),
    owned("child", "root"),
    owned("other", "root", "child"),
    owned("alone", "elsewhere"),
  ];
  expect(generations(objects)).toEqual([["grandchild", "other", "alone"], ["child"]]);
});

test("owners in a circle go together, and end", () => {
  expect(generations([owned("leaf", "a"), owned("a", "b"), owned("b", "a")])).toEqual([["leaf"], ["a", "b"]]);
  expect(generations([])).toEqual([]);
});
