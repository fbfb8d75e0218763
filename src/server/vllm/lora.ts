// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them, for admins: a path of this machine becomes a model.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { AdapterChange } from '../../pool/model-pool.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { readExactBody, rulesFor } from '../http/parse-body.ts';
import type { Route } from '../route.ts';

const loadSchema = z.object({
  lora_name: z.string().min(1).meta({ description: 'What requests call it as a model.' }),
  lora_path: z.string().min(1).meta({ description: 'A folder or a GGUF file on the machine of the server.' }),
  base_model_name: z
    .string()
    .meta({ description: 'The model that it is for; the default model where absent.' })
    .optional(),
});

const unloadSchema = z.object({ lora_name: z.string().min(1) });

export function loraRoutes({ pool }: ServerContext): readonly Route[] {
  return [
    {
      method: 'POST',
      url: '/v1/load_lora_adapter',
      access: 'admin',
      summary: 'Add an adapter to a model, which is loaded again with it',
      body: loadSchema,
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const body = readExactBody(rulesFor(loadSchema), request);
        const { lora_name: name, lora_path: path, base_model_name: model } = body;
        if (pool.addAdapter === undefined) throw elsewhere();
        checked(await pool.addAdapter(model, name, path));
        return reply.type('text/plain').send(`Success: LoRA adapter '${name}' added successfully.`);
      },
    },
    {
      method: 'POST',
      url: '/v1/unload_lora_adapter',
      access: 'admin',
      summary: 'Remove an adapter',
      body: unloadSchema,
      handler: async (request: FastifyRequest, reply: FastifyReply) => {
        const { lora_name: name } = readExactBody(rulesFor(unloadSchema), request);
        if (pool.removeAdapter === undefined) throw elsewhere();
        checked(await pool.removeAdapter(name));
        return reply.type('text/plain').send(`Success: LoRA adapter '${name}' removed successfully.`);
      },
    },
  ];
}

function elsewhere(): ApiError {
  return new ApiError(501, 'models are served by other machines; give them their adapters there', {
    code: 'not_supported',
  });
}

const statuses = { busy: 409, 'unknown-model': 404, 'unknown-adapter': 404 } as const;

function checked(change: AdapterChange): void {
  if (change.ok) return;
  const { failure, message } = change;
  const status = failure in statuses ? statuses[failure as keyof typeof statuses] : 400;
  const param =
    failure === 'unusable' ? 'lora_path' : failure === 'unknown-model' ? 'base_model_name' : 'lora_name';
  throw new ApiError(status, `${param}: ${message}`, { param, code: failure.replace('-', '_') });
}
