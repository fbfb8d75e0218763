// Every route of the server, in the order of its documentation.

import { adminRoutes } from './admin/routes.ts';
import { messageBatchRoutes } from './anthropic/message-batches.ts';
import { messageRoutes } from './anthropic/routes.ts';
import type { BatchRunner } from './batches/batch-runner.ts';
import { batchRoutes } from './batches/routes.ts';
import type { ServerContext } from './context.ts';
import { fileRoutes } from './files/routes.ts';
import { liveRoute, requestRoutes } from './live/routes.ts';
import { llamaServerRoutes } from './llama-server/routes.ts';
import { ollamaRoutes } from './ollama/routes.ts';
import { modelRoutes } from './openai/models.ts';
import { openAiRoutes } from './openai/routes.ts';
import { tokenRoutes } from './openai/tokens.ts';
import { openApiDocument } from './openapi.ts';
import { documentRoute, pageRoutes, whoamiRoute } from './page/routes.ts';
import { usageRoute } from './page/usage.ts';
import type { BackgroundResponses } from './responses/background-responses.ts';
import { responseRoutes } from './responses/routes.ts';
import type { Route } from './route.ts';
import { scoringRoutes } from './scoring/routes.ts';
import { statusRoutes } from './status/routes.ts';
import { vllmRoutes } from './vllm/routes.ts';

export function routeTable(
  context: ServerContext,
  runner?: Pick<BatchRunner, 'wake'>,
  background?: BackgroundResponses,
): readonly Route[] {
  const routes: readonly Route[] = [
    ...openAiRoutes(context),
    ...scoringRoutes(context),
    ...messageRoutes(context),
    ...messageBatchRoutes(context, runner),
    ...responseRoutes(context, background),
    ...fileRoutes(context),
    ...batchRoutes(context, runner),
    ...modelRoutes(context),
    ...tokenRoutes(context),
    whoamiRoute(context),
    ...requestRoutes(context),
    usageRoute(context),
    ...statusRoutes(context),
    ...adminRoutes(context, runner),
    liveRoute(context),
    ...ollamaRoutes(context),
    ...llamaServerRoutes(context),
    ...vllmRoutes(context),
  ];
  return [...routes, documentRoute(() => openApiDocument(context.version, routes)), ...pageRoutes(context)];
}
