import { tmpdir } from "node:os";
import { join } from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { Network } from "./testbed/network/network.ts";

// Tests start hundreds of Node processes, workers and command lines, each of which would compile the same modules anew.
process.env["NODE_COMPILE_CACHE"] ??= join(tmpdir(), "rehome-compile-cache");

/** Network namespaces need root on Linux. Without it their tests are left out, and this line says so. */
const whyNot = Network.whyNot();
if (whyNot !== undefined) process.stderr.write(`tests in network namespaces are left out: ${whyNot}\n`);
const inNamespaces = [
  "api-clients",
  "control-plane",
  "kubelet",
  "kubelet-dns",
  "kubelet-services",
  "network",
  "seed",
].map((name) => `test/testbed/${name}.test.ts`);

// Real servers are slow to start and quick afterwards: files that share some run one after the other, and so do the
// groups, because two cores are not enough for two of them.
/** Of Gardener's adapter, which needs Gardener's own API server: another eight minutes to build. `npm run test:gardener`. */
const gardener = {
  test: {
    name: "gardener",
    include: ["test/hosting/**/*.test.ts"],
    sequence: { groupOrder: 5 },
    testTimeout: 120_000,
    hookTimeout: 1_800_000,
    fileParallelism: false,
  },
};

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          sequence: { groupOrder: 0 },
          // Some wait out times of the code itself, and a busy machine adds to them.
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "servers",
          globalSetup: ["test/setup/temporal.ts"],
          include: ["test/{cli,dns,etcd,engine,replay,testbed}/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...(whyNot === undefined ? [] : inNamespaces)],
          sequence: { groupOrder: 1 },
          testTimeout: 300_000,
          expect: { poll: { timeout: 120_000 } },
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "e2e",
          globalSetup: ["test/setup/kcp.ts"],
          include: ["test/e2e/{logical-cluster,clients,tenants}/**/*.test.ts"],
          sequence: { groupOrder: 2 },
          testTimeout: 600_000,
          // kcp asks again after a minute where a fence, or a server that was gone, has kept it waiting.
          expect: { poll: { timeout: 120_000 } },
          hookTimeout: 1_800_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "control-plane",
          include: ["test/e2e/control-plane/**/*.test.ts"],
          sequence: { groupOrder: 3 },
          testTimeout: 1_800_000,
          hookTimeout: 1_800_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "chaos",
          include: ["test/chaos/**/*.test.ts"],
          sequence: { groupOrder: 4 },
          testTimeout: 2_400_000,
          hookTimeout: 1_800_000,
          fileParallelism: false,
        },
      },
      ...(process.env["REHOME_TEST_GARDENER"] === undefined ? [] : [gardener]),
    ],
  },
});
