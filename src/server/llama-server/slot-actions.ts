// POST /slots/{id}?action=save, restore or erase: what a slot's last request has left in the prefix cache goes to a file, comes back
// from it, or is given up. Files are their key's own.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { SlotAction, SlotFailure, SlotResult } from '../../engine/slots/slot-action.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { type BodyRules, readBody } from '../http/parse-body.ts';
import { callerOf, kvShareOf } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { slotCount } from '../request/slot-number.ts';
import { idOf } from '../route.ts';
import { loadedModel } from './props.ts';
import { fileNameProblem } from './slot-file-name.ts';

const ACTIONS = ['save', 'restore', 'erase'] as const;
type ActionName = (typeof ACTIONS)[number];

export const slotActionSchema = z.object({
  filename: z
    .string()
    .meta({ description: 'Of save and restore: the name of a file of this key.' })
    .optional(),
  model: z.string().meta({ description: 'The same as ?model=.' }).optional(),
});

const rules: BodyRules<typeof slotActionSchema> = { schema: slotActionSchema, noOps: [], refused: {} };

const common = { id_slot: z.int() };
const file = { ...common, filename: z.string() };

export const slotAnswerSchema = z.union([
  z.strictObject({
    ...file,
    n_saved: z.int().meta({ description: 'Tokens: those of whole blocks of 32.' }),
    n_written: z.int().meta({ description: 'Bytes.' }),
    timings: z.strictObject({ save_ms: z.number() }),
  }),
  z.strictObject({
    ...file,
    n_restored: z.int(),
    n_read: z.int(),
    timings: z.strictObject({ restore_ms: z.number() }),
  }),
  z.strictObject({
    ...common,
    n_erased: z.int().meta({ description: 'Tokens that are not in the cache any more.' }),
  }),
]);

/** `withModel` loads the model, and keeps it loaded while it is used. */
type WithModel = <Answer>(entry: ModelEntry, use: (model: ServedModel) => Promise<Answer>) => Promise<Answer>;

export async function actOnSlot(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  withModel: WithModel,
): Promise<z.infer<typeof slotAnswerSchema>> {
  if (!context.settings.savesSlots) throw notSupported(context);
  const { action: asked, model: named } = request.query as Record<string, unknown>;
  const slot = slotOf(context, idOf(request));
  const name = ACTIONS.find((one) => one === asked);
  if (name === undefined) throw badRequest('action', `must be ${ACTIONS.join(', ')}`);
  const body = readBody(rules, { body: request.body ?? {} }, reply);
  const filename = name === 'erase' ? '' : fileNameOf(body.filename);
  const modelName = typeof named === 'string' ? named : body.model;
  const entry = findEntry(context.pool, modelName);
  const action = actionOf(context, request, name, { slot, filename });
  const act = async (model: ServedModel) => {
    if (model.engine.actOnSlot === undefined) throw notSupported(context);
    return model.engine.actOnSlot(action).catch((error: Error): SlotResult => {
      return { ok: false, failure: 'ended', message: error.message };
    });
  };
  // Of a model that is not loaded nothing is in the cache.
  const isNeeded = name === 'restore' || loadedModel(context.pool, entry) !== undefined;
  const result = isNeeded ? await withModel(entry, act) : unloaded(name, slot);
  if (!result.ok) throw slotError(result.failure, result.message);
  return answerOf(name, slot, filename, result);
}

function slotOf(context: ServerContext, id: string): number {
  const count = slotCount(context);
  const slot = /^\d{1,9}$/.test(id) ? Number(id) : count;
  if (slot >= count)
    throw badRequest('id_slot', `there is no slot '${id.slice(0, 40)}'; there are 0 to ${count - 1}`);
  return slot;
}

function fileNameOf(filename: string | undefined): string {
  if (filename === undefined) throw badRequest('filename', 'is missing', 'missing_required_parameter');
  const problem = fileNameProblem(filename);
  if (problem !== undefined) throw badRequest('filename', problem);
  return filename;
}

function actionOf(
  { settings }: ServerContext,
  request: FastifyRequest,
  name: ActionName,
  { slot, filename }: { readonly slot: number; readonly filename: string },
): SlotAction {
  const caller = callerOf(request);
  const { keyId: owner } = caller;
  const base = { slot, tenant: settings.shareCache ? '' : owner };
  switch (name) {
    case 'save':
      return { ...base, kind: 'save', owner, name: filename };
    case 'restore': {
      const kvShare = kvShareOf(caller, settings);
      return { ...base, kind: 'restore', owner, name: filename, account: owner, kvShare };
    }
    case 'erase':
      return { ...base, kind: 'erase' };
  }
}

function unloaded(name: ActionName, slot: number): SlotResult {
  if (name === 'erase') return { ok: true, tokens: 0, bytes: 0, ms: 0 };
  return { ok: false, failure: 'empty', message: `slot ${slot} holds nothing: its model is not loaded` };
}

function answerOf(
  name: ActionName,
  id_slot: number,
  filename: string,
  { tokens, bytes, ms }: Extract<SlotResult, { ok: true }>,
): z.infer<typeof slotAnswerSchema> {
  switch (name) {
    case 'save':
      return { id_slot, filename, n_saved: tokens, n_written: bytes, timings: { save_ms: ms } };
    case 'restore':
      return { id_slot, filename, n_restored: tokens, n_read: bytes, timings: { restore_ms: ms } };
    case 'erase':
      return { id_slot, n_erased: tokens };
  }
}

function notSupported({ fleet }: Pick<ServerContext, 'fleet'>): ApiError {
  const why =
    fleet === undefined
      ? 'start the server with --slot-save-path FOLDER'
      : 'a gateway of a fleet has no cache of its own';
  return new ApiError(501, `slots cannot be saved, restored or erased here: ${why}`, {
    code: 'not_supported',
  });
}

const statusOf: Readonly<Record<SlotFailure, readonly [status: number, code: string]>> = {
  off: [501, 'not_supported'],
  empty: [400, 'slot_empty'],
  absent: [404, 'slot_not_found'],
  foreign: [404, 'slot_not_found'],
  damaged: [400, 'slot_damaged'],
  unfit: [400, 'slot_unfit'],
  busy: [503, 'no_room'],
  full: [507, 'disk_full'],
  failed: [500, 'slot_failed'],
  ended: [503, 'engine_failed'],
};

function slotError(failure: SlotFailure, message: string): ApiError {
  const [status, code] = statusOf[failure];
  const headers = status === 503 ? { 'retry-after': '5' } : {};
  return new ApiError(status, message, { code, headers });
}
