import { describe, expect, test } from "vitest";
import { checkDefinition, checkGates } from "../../../workflows/engine/definition.ts";
import type { Definition } from "../../../workflows/engine/definition.ts";
import { phase } from "../../../workflows/engine/phase.ts";
import type { Background, Phase } from "../../../workflows/engine/phase.ts";

type Kind = Definition<object, string>;

async function nothing(): Promise<void> {
  // A definition is only looked at here.
}

function kind(
  phases: readonly Phase<object>[],
  background?: Omit<Background<object>, "run" | "summary">,
): Kind {
  return {
    kind: "parcelMigration",
    phases,
    preflight: async () => {
      throw new Error("not called");
    },
    report: () => "",
    ...(background === undefined ? {} : { background: { ...background, summary: "", run: nothing } }),
  };
}

const plain = (name: string, rest: Partial<Phase<object>> = {}) =>
  phase<object>(name, { summary: name, run: nothing, ...rest });
const commit = plain("Commit", { pointOfNoReturn: true });

describe("a definition", () => {
  test("that keeps the rules passes", () => {
    const phases = [plain("A", { undo: nothing }), plain("B"), commit, plain("C")];
    expect(() => checkDefinition(kind(phases, { from: "A", until: "Commit" }))).not.toThrow();
  });

  test.each<[string, Kind, string]>([
    ["a name twice", kind([plain("A"), plain("A")]), "not unique"],
    ["the name of the preflight", kind([plain("Preflight")]), "not unique"],
    ["two points of no return", kind([commit, { ...commit, name: "Again" }]), "more than one"],
    [
      "an undo behind it",
      kind([commit, plain("B", { undo: nothing })]),
      "comes after the point of no return",
    ],
    [
      "a comeback to nowhere",
      kind([{ ...commit, comeback: { on: [], to: "X", afterMs: 0, atMost: 1 } }]),
      "cannot come back to X",
    ],
    [
      "a background that ends before it starts",
      kind([plain("A"), plain("B")], { from: "B", until: "A" }),
      "B until A",
    ],
    ["a background beyond it", kind([commit, plain("B")], { from: "Commit", until: "B" }), "Commit until B"],
  ])("with %s is refused", (_, definition, message) => {
    expect(() => checkDefinition(definition)).toThrow(message);
  });

  test("names its gates when one is unknown", () => {
    expect(() => checkGates(kind([plain("A"), commit]), ["B"])).toThrow(
      '"B" is not a phase of parcelMigration; use any of A, Commit',
    );
    expect(() => checkGates(kind([plain("A")]), ["A"])).not.toThrow();
  });
});
