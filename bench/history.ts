import { tell } from "./bench.ts";
import type { Bench } from "./bench.ts";
import type { Sample } from "./results.ts";
import { makeWorkspace, moveWithRehome, withScene } from "./scene.ts";
import type { Scene } from "./scene.ts";

const system = "rehome";

/** How large the history of a move becomes, which Temporal keeps whole. */
export const history: Bench = {
  about: "events and bytes of a move's workflow history",
  runs: 3,
  sizes: [100, 1_000, 10_000, 50_000],
  round: async ({ dir, sizes }) =>
    await withScene(dir, async (scene) => {
      const samples: Sample[] = [];
      for (const size of sizes) samples.push(...(await measure(scene, size)));
      return samples;
    }),
};

async function measure(scene: Scene, size: number): Promise<Sample[]> {
  const workspace = await makeWorkspace(scene, { name: `team-${size}`, objects: size });
  const { workflowId } = await moveWithRehome(scene, workspace);
  const description = await scene.client.workflow.getHandle(workflowId).describe();
  const { historyLength: events, historySize: bytes } = description;
  tell(`${size} objects: ${events} events, ${bytes} bytes`);
  return [
    { system, size, metric: "events", unit: "events", value: events },
    { system, size, metric: "bytes", unit: "bytes", value: bytes ?? 0 },
  ];
}
