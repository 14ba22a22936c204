import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { targetFrom, typedConnection } from "../../../cli/connection.ts";

let folder: string;
let config: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-cli-"));
  config = join(folder, "rehome.yaml");
  await writeFile(config, "temporal: { address: 'file:1', namespace: from-file }\n");
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

test("the command line goes before the environment, and that before the file", async () => {
  const environment = { TEMPORAL_ADDRESS: "env:1", TEMPORAL_API_KEY: "k" };
  expect(await targetFrom({ config }, {})).toEqual({
    namespace: "from-file",
    connection: { address: "file:1" },
  });
  expect(await targetFrom({ config, namespace: "typed" }, environment)).toEqual({
    namespace: "typed",
    connection: { address: "env:1", apiKey: "k" },
  });
  expect((await targetFrom({ config, address: "typed:1" }, environment)).connection.address).toBe("typed:1");
});

test("without a file Temporal's defaults hold", async () => {
  expect(await targetFrom({}, {})).toEqual({
    namespace: "default",
    connection: { address: "127.0.0.1:7233" },
  });
});

async function refusal(file: string): Promise<unknown> {
  return await targetFrom({ config: file }, {}).catch((error: unknown) => error);
}

test("a file that is not there, and one that is wrong, are usage errors that name it", async () => {
  const wrong = join(folder, "wrong.yaml");
  await writeFile(wrong, "temporal: { adress: x }\n");
  expect(await refusal("/nowhere.yaml")).toMatchObject({
    exitCode: 2,
    message: expect.stringContaining("/nowhere.yaml") as string,
  });
  expect(await refusal(wrong)).toMatchObject({
    exitCode: 2,
    message: expect.stringContaining("adress") as string,
  });
});

test("a connection that was typed is typed again in commands that are shown", () => {
  expect(typedConnection({ address: "a:1", config: "x y.yaml" })).toEqual([
    "--config",
    "x y.yaml",
    "--address",
    "a:1",
  ]);
});
