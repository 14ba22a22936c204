import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { NOBODY } from "../../../hosting/claim.ts";
import { loadConfig } from "../../../sites/config.ts";
import { ControlPlaneSites } from "../../../sites/control-planes.ts";

const folder = mkdtempSync(join(tmpdir(), "rehome-control-planes-"));
const KUBECONFIG = `
apiVersion: v1
kind: Config
current-context: admin
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: u, user: { token: t } }]
contexts: [{ name: admin, context: { cluster: c, user: u } }]
`;
writeFileSync(join(folder, "any.kubeconfig"), KUBECONFIG);

function load(text: string) {
  const path = join(folder, "rehome.yaml");
  writeFileSync(path, text);
  return loadConfig(path);
}

const PLAIN = `
seeds: { seed-a: { kubeconfig: any.kubeconfig }, seed-b: { kubeconfig: any.kubeconfig } }
dns:
  servers: ["127.0.0.1:53"]
  zone: example.com
  tsig: { name: rehome, secretFile: tsig.secret }
controlPlanes:
  team-a:
    namespace: shoot--team-a
    kubeconfig: any.kubeconfig
    apiServer: { dnsName: api.team-a.example.com }
`;

const GARDENER = `
seeds: { seed-a: { kubeconfig: any.kubeconfig }, seed-b: { kubeconfig: any.kubeconfig } }
controlPlanes:
  team-b:
    hosting: gardener
    namespace: shoot--dev--team-b
    kubeconfig: any.kubeconfig
    apiServer: { dnsName: api.team-b.example.com }
    garden: { kubeconfig: any.kubeconfig, context: admin }
    project: garden-dev
    shoot: team-b
`;

/** What the Shoot's name is checked in, where the configuration has this zone. */
function zoneOf(zone: string): string | undefined {
  const config = load(`${GARDENER}dns: { servers: ["127.0.0.1:53"], zone: ${zone} }\n`);
  return new ControlPlaneSites(config).controlPlane("team-b", ends, NOBODY).zone?.zone;
}

const ends = { source: "seed-a", destination: "seed-b" };

describe("a control plane in rehome.yaml", () => {
  it("is made of StatefulSets unless it says otherwise", () => {
    const config = load(PLAIN);
    expect(config.controlPlanes["team-a"]).toMatchObject({
      hosting: "statefulset",
      controllers: ["machine-controller-manager", "cluster-autoscaler", "gardener-resource-manager"],
    });
    const { hosting, zone } = new ControlPlaneSites(config).controlPlane("team-a", ends, NOBODY);
    expect(hosting.promotesByItself).toBe(false);
    expect(zone?.zone).toBe("example.com");
  });

  it("may be a Shoot of Gardener's, which needs no DNS key", () => {
    const config = load(GARDENER);
    expect(config.controlPlanes["team-b"]).toMatchObject({
      garden: { kubeconfig: join(folder, "any.kubeconfig"), context: "admin" },
      ingress: { namespace: "istio-ingress", service: "istio-ingressgateway" },
      deadlineMs: 600_000,
      etcds: ["etcd-main", "etcd-events"],
    });
    const { hosting, zone } = new ControlPlaneSites(config).controlPlane("team-b", ends, NOBODY);
    expect(hosting.promotesByItself).toBe(true);
    expect(zone).toBeUndefined();
  });

  it("of Gardener's is checked at the servers of its zone, where they are given, and only there", () => {
    expect(zoneOf("example.com")).toBe("example.com");
    expect(zoneOf("Example.COM")).toBe("Example.COM");
    expect(zoneOf("mple.com")).toBeUndefined();
  });

  it.each([
    ["no Shoot", GARDENER.replace("    shoot: team-b\n", ""), /team-b"\]\.shoot/],
    ["no garden", GARDENER.replace(/ {4}garden:.*\n/, ""), /team-b"\]\.garden/],
    ["no project", GARDENER.replace(/ {4}project:.*\n/, ""), /team-b"\]\.project/],
    [
      "a name that Kubernetes would not take",
      GARDENER.replace("shoot: team-b", "shoot: Team_B"),
      /"Team_B" is not the name of a Kubernetes object: use small letters[^]*team-b"\]\.shoot/,
    ],
    [
      "a field of the other hosting",
      `${GARDENER}    controllers: [a]\n`,
      /hosting gardener knows no field controllers: leave it out, or set hosting: statefulset[^]*team-b/,
    ],
    [
      "a Shoot, and no word of Gardener",
      GARDENER.replace("    hosting: gardener\n", ""),
      /hosting statefulset knows no field garden, project, shoot: leave it out, or set hosting: gardener/,
    ],
    ["an unknown hosting", GARDENER.replace("hosting: gardener", "hosting: cloud"), /team-b"\]\.hosting/],
    [
      "a deadline too short for anything",
      `${GARDENER}    deadlineMs: 5\n`,
      /5 is no time that a controller can work in: give 1000 ms or more[^]*team-b"\]\.deadlineMs/,
    ],
    ["no DNS key", PLAIN.replace(/ {2}tsig:.*\n/, ""), /add the section dns, with tsig[^]*team-a/],
    [
      "a name outside of the zone",
      PLAIN.replace("zone: example.com", "zone: example.org"),
      /api\.team-a\.example\.com is not in dns\.zone example\.org[^]*team-a"\]\.apiServer\.dnsName/,
    ],
  ])("with %s is refused by name", (_what, text, message) => {
    expect(() => load(text)).toThrow(message);
  });

  it("is an example that loads", () => {
    const { controlPlanes } = loadConfig("deploy/rehome.example.yaml");
    expect(Object.values(controlPlanes).map(({ hosting }) => hosting)).toEqual(["statefulset", "gardener"]);
  });
});
