import { defineConfig } from "vitest/config";

// Real servers are slow to start and quick afterwards: files that share one run one after the other.
export default defineConfig({
  test: {
    projects: [
      { test: { name: "unit", include: ["test/unit/**/*.test.ts"] } },
      {
        test: {
          name: "servers",
          globalSetup: ["test/setup/temporal.ts"],
          include: ["test/{etcd,engine,workflows,replay,testbed}/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 900_000,
          fileParallelism: false,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          testTimeout: 300_000,
          hookTimeout: 1_800_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
