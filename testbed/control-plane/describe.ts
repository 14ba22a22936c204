import { writeFile } from "node:fs/promises";
import { stringify } from "yaml";
import type { ControlPlaneTestbed } from "./testbed.ts";
import { apiServerName, controlPlane, seedNamespace } from "./names.ts";

type Described = Pick<ControlPlaneTestbed, "temporal" | "seeds" | "dns" | "shoot">;

/** Writes the `rehome.yaml` that makes workers and the CLI work with these servers. */
export async function writeControlPlaneConfig(file: string, testbed: Described): Promise<string> {
  const { temporal, seeds, dns, shoot } = testbed;
  const content = {
    temporal: { address: temporal.address, namespace: temporal.namespace },
    seeds: Object.fromEntries(
      Object.values(seeds).map(({ name, kubeconfig }) => [name, { kubeconfig, context: name }]),
    ),
    dns: { servers: dns.servers, zone: dns.zone, tsig: dns.tsig },
    controlPlanes: {
      [controlPlane]: {
        namespace: seedNamespace,
        kubeconfig: shoot.kubeconfig,
        apiServer: { dnsName: apiServerName },
        vpn: {},
      },
    },
  };
  await writeFile(file, stringify(content));
  return file;
}

/** The bed as `testbed.json` names it. */
export function describeControlPlane(testbed: ControlPlaneTestbed): object {
  const { network, seeds, shoot, dns, temporal, configFile, addresses } = testbed;
  return {
    rehomeConfig: configFile,
    temporal: { address: temporal.address, namespace: temporal.namespace, uiUrl: temporal.uiUrl },
    network: { id: network.id, places: network.places },
    seeds: Object.fromEntries(
      Object.values(seeds).map(({ name, url, kubeconfig }) => [name, { url, kubeconfig }]),
    ),
    dns: { servers: dns.servers, zone: dns.zone },
    controlPlane: {
      name: controlPlane,
      namespace: seedNamespace,
      dnsName: apiServerName,
      kubeconfig: shoot.kubeconfig,
      addresses,
    },
  };
}
