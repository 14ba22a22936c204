import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { afterEach, describe, expect, it } from "vitest";
import { firstFree, isInRange, parseRange } from "../../testbed/kubelet/addresses.ts";
import { environmentOf, expand, MissingSourceError } from "../../testbed/kubelet/environment.ts";
import type { EnvironmentSources } from "../../testbed/kubelet/environment.ts";
import { imageName } from "../../testbed/kubelet/programs.ts";
import { filesFromKeys, project } from "../../testbed/kubelet/projection.ts";

const facts = { podIP: "10.75.1.130", hostIP: "10.75.1.2" };

describe("addresses", () => {
  it("reads both notations of a range", () => {
    expect(parseRange("10.75.1.16-63")).toEqual({ first: "10.75.1.16", last: "10.75.1.63" });
    expect(parseRange("10.75.1.250-10.75.2.3")).toEqual({ first: "10.75.1.250", last: "10.75.2.3" });
    expect(() => parseRange("10.75.1.16")).toThrow("not a range");
    expect(() => parseRange("10.75.1.16-4")).toThrow("ends early");
  });

  it("finds the first free one, also over the end of the last part", () => {
    const range = parseRange("10.75.1.254-10.75.2.1");
    expect(firstFree(range, new Set(["10.75.1.254", "10.75.1.255"]))).toBe("10.75.2.0");
    expect(isInRange("10.75.2.2", range)).toBe(false);
    expect(() => firstFree(parseRange("10.75.1.1-1"), new Set(["10.75.1.1"]))).toThrow("no address is left");
  });
});

describe("environment", () => {
  const pod: V1Pod = {
    metadata: { name: "etcd-main-0", namespace: "demo", labels: { app: "etcd" } },
    spec: { containers: [] },
  };
  const sources: EnvironmentSources = {
    configMapKey: async (name, key) => (name === "settings" && key === "mode" ? "$(POD_NAME)" : undefined),
    secretKey: async () => undefined,
    services: async () => [
      {
        metadata: { name: "etcd-main-client" },
        spec: { clusterIP: "10.75.1.70", ports: [{ name: "client", port: 2379 }] },
      },
      { metadata: { name: "headless" }, spec: { clusterIP: "None", ports: [{ port: 80 }] } },
    ],
  };

  it("expands earlier variables, Services among them, and leaves what was read as it is", async () => {
    const env = [
      { name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
      { name: "APP", valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } },
      {
        name: "URL",
        value: "https://$(ETCD_MAIN_CLIENT_SERVICE_HOST):$(ETCD_MAIN_CLIENT_SERVICE_PORT)/$(LATER)",
      },
      { name: "MODE", valueFrom: { configMapKeyRef: { name: "settings", key: "mode" } } },
      { name: "NONE", valueFrom: { secretKeyRef: { name: "none", key: "x", optional: true } } },
      { name: "LATER", value: "$$(POD_NAME)" },
    ];
    expect(await environmentOf(pod, { name: "etcd", env }, facts, sources)).toEqual({
      ETCD_MAIN_CLIENT_SERVICE_HOST: "10.75.1.70",
      ETCD_MAIN_CLIENT_SERVICE_PORT: "2379",
      ETCD_MAIN_CLIENT_SERVICE_PORT_CLIENT: "2379",
      POD_NAME: "etcd-main-0",
      APP: "etcd",
      URL: "https://10.75.1.70:2379/$(LATER)",
      MODE: "$(POD_NAME)",
      LATER: "$(POD_NAME)",
    });
  });

  it("waits for a source that is not there", async () => {
    const env = [{ name: "A", valueFrom: { secretKeyRef: { name: "none", key: "x" } } }];
    await expect(environmentOf(pod, { name: "etcd", env }, facts, sources)).rejects.toThrow(
      MissingSourceError,
    );
  });

  it("keeps a doubled dollar sign from being expanded", () => {
    expect(expand("$$(A) $(A) $(B) $A", { A: "1" })).toBe("$(A) 1 $(B) $A");
  });
});

describe("images", () => {
  it.each(["etcd", "registry.example:5000/db/etcd:3.6.8", "etcd@sha256:ab"])("%s is etcd", (image) => {
    expect(imageName(image)).toBe("etcd");
  });
});

describe("projected volumes", () => {
  const folders: string[] = [];
  afterEach(async () => {
    for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
  });

  it("turn all files at once, and drop the old ones", async () => {
    const folder = await mkdtemp(join(tmpdir(), "projection-"));
    folders.push(folder);
    const values = { a: Buffer.from("1"), b: Buffer.from("2") };
    await project(folder, filesFromKeys(values, {}, 0o600));
    const held = await readFile(join(folder, "a"), "utf8");
    await project(folder, filesFromKeys({ ...values, a: Buffer.from("3") }, {}, 0o600));
    expect([
      held,
      await readFile(join(folder, "a"), "utf8"),
      await readFile(join(folder, "b"), "utf8"),
    ]).toEqual(["1", "3", "2"]);
    await project(folder, filesFromKeys({ a: Buffer.from("3") }, {}, 0o600));
    await expect(readFile(join(folder, "b"))).rejects.toThrow("ENOENT");
  });

  it("show the keys that are listed", () => {
    const files = filesFromKeys(
      { a: Buffer.from("1") },
      { items: [{ key: "a", path: "x/y", mode: 0o400 }] },
      0o644,
    );
    expect([...files]).toEqual([["x/y", { data: Buffer.from("1"), mode: 0o400 }]]);
    expect(() => filesFromKeys({}, { items: [{ key: "a", path: "a" }] }, 0o644)).toThrow("non-existent key");
  });
});
