import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KubeConfig } from "@kubernetes/client-node";
import { ApiServer } from "../../../kubernetes/api-server.ts";
import type { Answer, RequestInput } from "../../../kubernetes/api-server.ts";
import type { Bed } from "../harness/bed.ts";

/** One request through the front-proxy with a bearer token and no other credential. */
export async function requestAs(bed: Bed, token: string, input: RequestInput): Promise<Answer> {
  const known = new KubeConfig();
  known.loadFromFile(bed.kubeconfig);
  known.setCurrentContext("base");
  const dir = await mkdtemp(join(tmpdir(), "rehome-token-"));
  try {
    const { server, caFile, caData } = known.getCurrentCluster()!;
    const cluster = {
      server,
      ...(caFile !== undefined && { "certificate-authority": caFile }),
      ...(caData !== undefined && { "certificate-authority-data": caData }),
    };
    const kubeconfig = join(dir, "kubeconfig");
    await writeFile(
      kubeconfig,
      JSON.stringify({
        apiVersion: "v1",
        kind: "Config",
        "current-context": "it",
        clusters: [{ name: "it", cluster }],
        users: [{ name: "it", user: { token } }],
        contexts: [{ name: "it", context: { cluster: "it", user: "it" } }],
      }),
    );
    return await new ApiServer("front-proxy", { kubeconfig }).request(input);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
