import type { ControlPlaneBed, SeedName } from "./bed.ts";

/** All packets to and from a seed are lost, those of the worker included, until disposed. */
export async function cutOff({ testbed }: ControlPlaneBed, seed: SeedName): Promise<AsyncDisposable> {
  const { network } = testbed;
  const wires = [network.wire("seed-a", "seed-b"), network.wire("shoot", seed)];
  await Promise.all([...wires.map(async (wire) => await wire.cut()), network.cutOperator(seed)]);
  const mend = async () => {
    await Promise.all([...wires.map(async (wire) => await wire.mend()), network.mendOperator(seed)]);
  };
  return { [Symbol.asyncDispose]: mend };
}
