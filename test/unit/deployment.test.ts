import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { loadConfig } from "../../sites/config.ts";

/** What a person deploys cannot be run here, for want of a container engine; what can be read of it is checked. */
const compose = z.object({
  services: z.record(
    z.string(),
    z.looseObject({
      image: z.string(),
      restart: z.string(),
      ports: z.array(z.string()).default([]),
      volumes: z.array(z.string()).default([]),
      healthcheck: z.looseObject({ test: z.array(z.string()) }).optional(),
      depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
    }),
  ),
  volumes: z.record(z.string(), z.unknown()),
});

const { services, volumes } = compose.parse(
  parse(await readFile("docker-compose.yml", "utf8"), { merge: true }),
);
const dockerfile = await readFile("Dockerfile", "utf8");

test("every image is pinned to a whole version", () => {
  const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
  const images = Object.values(services).map(({ image }) => image);
  for (const image of [...bases, ...images]) expect(image).toMatch(/:v?\d+\.\d+(\.\d+)?(-[\w.-]+)?$/);
});

test("the image's Node is the one that the project is tested with", async () => {
  const lock = z.object({
    packages: z.record(z.string(), z.looseObject({ version: z.string().optional() })),
  });
  const { packages } = lock.parse(JSON.parse(await readFile("package-lock.json", "utf8")));
  expect(dockerfile).toContain(`FROM node:${packages["node_modules/node"]?.version}-`);
});

test("the image holds every folder that the worker imports from", async () => {
  const ignored = await readFile(".dockerignore", "utf8");
  const folders = await foldersOf(["workers/worker.ts", "workers/bundle.ts", "workflows/index.ts"]);
  expect(folders).toContain("hosting");
  for (const folder of folders) {
    expect(dockerfile).toContain(`COPY ${folder} ./${folder}\n`);
    expect(ignored).toContain(`!${folder}\n`);
  }
});

/** The folders of all files that are imported from these, by whatever way. */
async function foldersOf(entries: readonly string[]): Promise<string[]> {
  const seen = new Set(entries);
  for (const file of seen) {
    const source = await readFile(file, "utf8");
    for (const [, target] of source.matchAll(/ from "(\.{1,2}\/[^"]+\.ts)"/g)) {
      seen.add(join(dirname(file), target!));
    }
  }
  return [...new Set([...seen].map((file) => file.split("/")[0]!))];
}

test("whatever waits for a service waits for one that can become what it waits for", () => {
  const hopeless = Object.entries(services).flatMap(([name, service]) =>
    Object.entries(service.depends_on)
      .filter(([wanted, { condition }]) => !canBecome(wanted, condition))
      .map(([wanted, { condition }]) => `${name} waits until ${wanted} is ${condition}`),
  );
  expect(hopeless).toEqual([]);
});

function canBecome(name: string, condition: string): boolean {
  const service = services[name];
  if (condition === "service_healthy") return service?.healthcheck !== undefined;
  return condition === "service_completed_successfully" && service?.restart === "on-failure";
}

test("nothing is reachable from other machines", () => {
  const ports = Object.values(services).flatMap((service) => service.ports);
  expect(ports.length).toBeGreaterThan(0);
  for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:/);
});

test("named volumes are declared, and mounted files are there", () => {
  const sources = Object.values(services)
    .flatMap((service) => service.volumes)
    .map((volume) => volume.split(":")[0] ?? "")
    .filter((source) => !source.startsWith("$"));
  expect(sources.length).toBeGreaterThan(0);
  expect(sources.filter((source) => !isThere(source))).toEqual([]);
});

function isThere(source: string): boolean {
  return source.startsWith("./") ? existsSync(source) : source in volumes;
}

test("the example of rehome.yaml is valid", () => {
  const { kcp } = loadConfig("deploy/rehome.example.yaml");
  expect(Object.keys(kcp?.shards ?? {})).toEqual(["root", "shard-1", "shard-2"]);
});
