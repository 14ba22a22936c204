# The worker. Node runs the TypeScript sources as they are; only the workflows are bundled, because Temporal runs those
# in a sandbox. Both happen on the same pinned Node.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /rehome
COPY package.json package-lock.json ./
RUN npm ci --omit=dev
COPY . .
RUN node workers/bundle.ts

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production
WORKDIR /rehome
COPY --from=build /rehome/node_modules ./node_modules
COPY --from=build /rehome/dist ./dist
COPY package.json LICENSE ./
COPY activities ./activities
COPY cli ./cli
COPY dns ./dns
COPY etcd ./etcd
COPY hosting ./hosting
COPY inputs ./inputs
COPY kubernetes ./kubernetes
COPY sites ./sites
COPY workers ./workers
COPY workflows ./workflows
USER node
EXPOSE 8081 9464
# Ready means: connected to Temporal and polling both task queues.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8081/readyz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Exec form, so that SIGTERM reaches the worker and running steps can end.
ENTRYPOINT ["node", "--max-semi-space-size=16", "workers/worker.ts", "--health-port", "8081", "--metrics-port", "9464"]
CMD ["--config", "/etc/rehome/rehome.yaml"]
