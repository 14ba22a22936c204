import { expect, test } from "vitest";
import { controlPlane } from "../../chaos/control-plane/kind.ts";
import type { Fault } from "../../chaos/fault.ts";
import { logicalCluster } from "../../chaos/logical-cluster/kind.ts";
import { cellName, movesOf, stageName } from "../../chaos/matrix.ts";

const matrices = [logicalCluster, controlPlane].map(({ name, stages, faults }) => ({
  name,
  stages,
  faults: faults as readonly Fault<never>[],
}));

test.each(matrices)("the moves of a $name have every fault in every stage once", ({ stages, faults }) => {
  const moves = movesOf(stages, faults, "a seed");
  const cells = moves.flat().map(cellName);
  const sensible = stages.flatMap((stage) =>
    faults
      .filter(({ amidStep }) => !(stage.atGate && amidStep))
      .map((fault) => cellName({ ...stage, fault })),
  );
  expect(cells.toSorted()).toEqual(sensible.toSorted());
  expect(new Set(cells).size).toBe(cells.length);
  const order = stages.map(stageName);
  for (const move of moves) {
    const struck = move.map(stageName);
    expect(struck).toEqual(order.filter((stage) => struck.includes(stage)));
    expect(new Set(struck).size).toBe(struck.length);
    expect(new Set(move.map(({ fault }) => fault.hidden)).size).toBe(1);
  }
});

test("another seed draws other moves", () => {
  const { stages, faults } = logicalCluster;
  const [one, again, other] = ["one", "one", "other"].map((seed) =>
    movesOf(stages, faults, seed).map((move) => move.map(cellName)),
  );
  expect(again).toEqual(one);
  expect(other).not.toEqual(one);
});
