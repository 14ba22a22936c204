import { expect, test } from "vitest";
import { differingFields } from "../../../kubernetes/differing-fields.ts";

const stored = (object: unknown) => Buffer.from(JSON.stringify(object));

test.each([
  ["nothing", { a: 1 }, { a: 1 }, []],
  ["a field of one side", { spec: {} }, { spec: {}, status: { phase: "Bound" } }, ["status"]],
  [
    "a field below",
    { status: { phase: "Bound", n: 1 } },
    { status: { phase: "Binding", n: 1 } },
    ["status.phase"],
  ],
  ["no name of a tenant's", { data: { "ann@example.dev": 1, b: 1 } }, { data: { b: 1 } }, ["data.*"]],
  ["a list, whole", { status: { claims: [1] } }, { status: { claims: [] } }, ["status.claims"]],
  [
    "what is no deeper than four",
    { a: { b: { c: { d: { e: 1 } } } } },
    { a: { b: { c: { d: {} } } } },
    ["a.b.c.d"],
  ],
  [
    "eight at most",
    { s: { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1 } },
    { s: {} },
    ["s.a", "s.b", "s.c", "s.d", "s.e", "s.f", "s.g", "s.h"],
  ],
] as const)("names %s", (_, one, another, expected) => {
  expect(differingFields(stored(one), stored(another))).toEqual(expected);
  expect(differingFields(stored(another), stored(one)).toSorted()).toEqual([...expected].toSorted());
});

test.each(["k8s\0\u000a", "k8s:enc:aescbc:v1:key1:x", "[]", "1"])("names none in %j", (value) => {
  expect(differingFields(Buffer.from(value), stored({ a: 1 }))).toEqual([]);
});
