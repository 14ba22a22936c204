import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../../sites/config.ts";

const folder = mkdtempSync(join(tmpdir(), "rehome-config-test-"));

function load(text: string) {
  const path = join(folder, "rehome.yaml");
  writeFileSync(path, text);
  return loadConfig(path);
}

const GOOD = `
kcp:
  frontProxies: [{ kubeconfig: front.kubeconfig, context: base }]
  shards:
    root:
      kubeconfig: /abs/root.kubeconfig
      etcd: { endpoints: [https://127.0.0.1:2379], tls: { ca: tls/ca.crt } }
`;

describe("rehome.yaml", () => {
  it("names files from its own folder, and has defaults", () => {
    const config = load(GOOD);
    expect(config.temporal).toEqual({ address: "127.0.0.1:7233", namespace: "default" });
    expect(config.kcp?.frontProxies[0]?.kubeconfig).toBe(join(folder, "front.kubeconfig"));
    const root = config.kcp?.shards.root;
    expect(root?.kubeconfig).toBe("/abs/root.kubeconfig");
    expect(root?.etcd).toMatchObject({ prefix: "/registry", tls: { ca: join(folder, "tls/ca.crt") } });
  });

  it.each([
    [
      "prefix with a slash at its end",
      GOOD.replace("endpoints", "prefix: /registry/, endpoints"),
      /etcd\.prefix/,
    ],
    ["endpoint that is no URL", GOOD.replace("https://127.0.0.1:2379", "somewhere"), /endpoints\[0\]/],
    ["unknown field", GOOD.replace("frontProxies", "frontProxys"), /frontProxys/],
    ["no endpoint", GOOD.replace("[https://127.0.0.1:2379]", "[]"), /endpoints/],
    ["shard with a bad name", GOOD.replace("    root:", "    Root_1:"), /Root_1/],
    ["not YAML", "kcp: [", /rehome\.yaml/],
  ])("with a %s is refused by name", (_what, text, message) => {
    expect(() => load(text)).toThrow(message);
  });

  it("that is missing is named", () => {
    expect(() => loadConfig(join(folder, "nowhere.yaml"))).toThrow(/nowhere\.yaml/);
  });
});
