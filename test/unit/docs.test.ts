import { existsSync, globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import {
  LOGICAL_CLUSTER_PHASES,
  logicalClusterMigrationInput,
} from "../../inputs/logical-cluster-migration.ts";
import { SEARCH_ATTRIBUTES } from "../../workflows/engine/names.ts";

const pages = globSync(["*.md", "docs/**/*.md"]);

/** Anchors as GitHub makes them of headings. */
function anchorsOf(page: string): string[] {
  return [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} -]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** The relative links of a page that lead nowhere. */
async function brokenLinks(page: string): Promise<string[]> {
  const text = await readFile(page, "utf8");
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  const broken: string[] = [];
  for (const link of links.filter((one) => !/^https?:/.test(one))) {
    const [path = "", anchor] = link.split("#");
    const file = path === "" ? page : join(dirname(page), path);
    const good =
      existsSync(file) && (anchor === undefined || anchorsOf(await readFile(file, "utf8")).includes(anchor));
    if (!good) broken.push(link);
  }
  return broken;
}

test.each(pages)("what %s links to is there", async (page) => {
  expect(await brokenLinks(page)).toEqual([]);
});

/** Names at the beginning of a list's items. */
function listed(part: string): (string | undefined)[] {
  return [...part.matchAll(/^- `([^`]+)`: \S/gm)].map(([, name]) => name);
}

test("every dependency has its line, and every line its dependency", async () => {
  const names = z.record(z.string(), z.string());
  const manifest = z.object({ dependencies: names, devDependencies: names });
  const { dependencies, devDependencies } = manifest.parse(
    JSON.parse(await readFile("package.json", "utf8")),
  );
  const [, atRunTime = "", inDevelopment = ""] = (await readFile("docs/dependencies.md", "utf8")).split(
    /^## .*$/m,
  );
  expect(listed(atRunTime)).toEqual(Object.keys(dependencies).toSorted());
  expect(listed(inDevelopment)).toEqual(Object.keys(devDependencies).toSorted());
});

async function missingFrom(page: string, wanted: readonly string[]): Promise<string[]> {
  // The formatter pads the cells of tables.
  const text = (await readFile(page, "utf8")).replaceAll(/ +/g, " ");
  return wanted.filter((part) => !text.includes(part));
}

test("the page on logical clusters has every phase, every field and its default", async () => {
  const fields = Object.entries(logicalClusterMigrationInput.shape).map(([field, schema]) => {
    const { success, data } = z.safeParse(schema, undefined);
    const value = success && data !== undefined ? JSON.stringify(data).replaceAll('"', "") : undefined;
    return `\n| \`${field}\` | ${value === undefined ? "" : `\`${value}\` `}|`;
  });
  const phases = LOGICAL_CLUSTER_PHASES.map((phase) => `\n| ${phase} |`);
  expect(await missingFrom("docs/logical-cluster.md", [...phases, ...fields])).toEqual([]);
});

test("the page on operations has every search attribute", async () => {
  const names = Object.values(SEARCH_ATTRIBUTES).map(({ name }) => `\`${name}\``);
  expect(await missingFrom("docs/operations.md", names)).toEqual([]);
});
