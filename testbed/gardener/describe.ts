import { writeFileSync } from "node:fs";
import { stringify } from "yaml";
import { demo } from "./garden-objects.ts";

interface Described {
  readonly kubeconfigs: Readonly<Record<"garden" | "source" | "destination", string>>;
  /** Of the control plane itself. */
  readonly kubeconfig: string;
  /** Further fields of the control plane, or other values. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly dns?: { readonly servers: readonly string[]; readonly zone: string };
  readonly temporal?: { readonly address: string; readonly namespace: string };
}

/** Writes the `rehome.yaml` that chooses Gardener for the Shoot of the test bed. */
export function writeGardenerConfig(file: string, described: Described): string {
  const { kubeconfigs, kubeconfig, fields, dns, temporal } = described;
  const { seeds, namespace, project, shoot } = demo;
  const content = {
    ...(temporal && { temporal }),
    seeds: {
      [seeds.source]: { kubeconfig: kubeconfigs.source },
      [seeds.destination]: { kubeconfig: kubeconfigs.destination },
    },
    ...(dns && { dns }),
    controlPlanes: {
      [shoot]: {
        hosting: "gardener",
        namespace,
        kubeconfig,
        apiServer: { dnsName: "api.demo.rehome.example" },
        garden: { kubeconfig: kubeconfigs.garden },
        project,
        shoot,
        ...fields,
      },
    },
  };
  writeFileSync(file, stringify(content));
  return file;
}
