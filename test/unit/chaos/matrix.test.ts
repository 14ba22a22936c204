import { expect, test } from "vitest";
import { controlPlane } from "../../chaos/control-plane/kind.ts";
import type { Fault } from "../../chaos/fault.ts";
import { logicalCluster } from "../../chaos/logical-cluster/kind.ts";
import { cellName, movesOf } from "../../chaos/matrix.ts";

const matrices = [logicalCluster, controlPlane].map(({ name, phases, faults }) => ({
  name,
  phases,
  faults: faults as readonly Fault<never>[],
}));

test.each(matrices)("the moves of a $name have every fault in every phase once", ({ phases, faults }) => {
  const moves = movesOf(phases, faults, "a seed");
  const cells = moves.flat().map(cellName);
  expect(new Set(cells).size).toBe(phases.length * faults.length);
  expect(cells).toHaveLength(phases.length * faults.length);
  for (const move of moves) {
    expect(move.map(({ phase }) => phase)).toEqual(phases);
    expect(new Set(move.map(({ fault }) => fault.hidden)).size).toBe(1);
  }
});

test("another seed draws other moves", () => {
  const { phases, faults } = logicalCluster;
  const [one, again, other] = ["one", "one", "other"].map((seed) =>
    movesOf(phases, faults, seed).map((move) => move.map(cellName)),
  );
  expect(again).toEqual(one);
  expect(other).not.toEqual(one);
});
