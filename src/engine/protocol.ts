// The messages between the server process and an engine process. One report a step carries all its tokens; requests come
// many in a message, so that those of one prompt carry it once.

import type { SlotFolder } from '../block-store/slot-files.ts';
import type { BackendName, KvType } from '../compute/backend.ts';
import type { GrammarTables } from '../grammar/tables.ts';
import type { VocabularyTables } from '../grammar/vocabulary.ts';
import type { AdapterPath } from '../model/open-spec.ts';
import type { Engine, EngineOptions, EngineStats } from './engine.ts';
import type { EngineSnapshot } from './live/snapshot.ts';
import type { AnswerGrammar, AnswerRequest, EngineRequest } from './request.ts';
import { unloadedError } from './request-errors.ts';
import type { BudgetOptions } from './scheduler/token-budget.ts';
import type { SlotAction, SlotResult } from './slots/slot-action.ts';
import type { StepReport } from './step-report.ts';
import type { ModelIdentity } from './tiers/block-keys.ts';

export interface TierSettings {
  /** Memory of the machine; 0 for none. */
  readonly hostBytes: number;
  readonly disk?: DiskSettings;
}

export interface DiskSettings {
  readonly folder: string;
  /** Of all models together. */
  readonly sizeBytes: number;
  /** How long blocks are kept. Default: as long as there is room. */
  readonly ageMs?: number;
  /** Of the key that seals blocks; in the folder where absent. */
  readonly keyFile?: string;
}

/** All that an engine process must know to serve a model. Plain data. */
export interface EngineSettings {
  readonly modelPath: string;
  /** Requests name them by number. */
  readonly adapters?: readonly AdapterPath[];
  /** Opens the model's vision tower, too, where it has one. */
  readonly images?: boolean;
  /** Opens the model's MTP head, too, where it has one. */
  readonly mtp?: boolean;
  /** Of a GGUF: its projector file. Default: the one beside it. */
  readonly projectorPath?: string;
  readonly backend?: BackendName;
  /** One of several GPUs, where the backend is cuda or webgpu. */
  readonly gpu?: string;
  readonly threads?: number;
  readonly kvType?: KvType;
  /** A smaller model of the same vocabulary that drafts. */
  readonly draftPath?: string;
  /** An EAGLE-3 head for the model, in place of its MTP head. */
  readonly eagle3Path?: string;
  /** Slots for what layers without KV remember, where the model has such. */
  readonly stateSlots?: number;
  /** Where blocks that leave memory are kept, once it is known which model it is; absent: nowhere. */
  readonly tiers?: TierSettings;
  /** Where the prefixes of slots are saved; absent: nowhere. */
  readonly slots?: SlotFolder;
  readonly engine: Omit<
    EngineOptions,
    | 'vocabSize'
    | 'contextLength'
    | 'budget'
    | 'wholeTexts'
    | 'vision'
    | 'dense'
    | 'draft'
    | 'newDrafter'
    | 'rowTimes'
    | 'draftTimes'
    | 'hostBytes'
    | 'slots'
  > & {
    /** The model's own limit where absent. */
    readonly contextLength?: number;
    /** Chosen for the machine where absent. */
    readonly budget?: BudgetOptions;
  };
}

/** Grammar tables that were sent before are named by their key alone. */
export type SentRequest =
  | EngineRequest
  | (Omit<AnswerRequest, 'grammar'> & {
      readonly grammar: Omit<AnswerGrammar, 'tables'> & { readonly tables: Pick<GrammarTables, 'key'> };
    });

export type ToEngine =
  | { readonly kind: 'load'; readonly settings: EngineSettings }
  | { readonly kind: 'submit'; readonly requests: readonly SentRequest[] }
  | { readonly kind: 'cancel'; readonly ids: readonly string[] }
  | { readonly kind: 'stats'; readonly ticket: number }
  /** Whether reports carry full stats. */
  | { readonly kind: 'report-stats'; readonly on: boolean }
  /** Whether reports say what enters and leaves the prefix cache. Said again, all that is in it is sent again. */
  | { readonly kind: 'report-prefixes'; readonly on: boolean }
  /** The same of the tiers below its memory. */
  | { readonly kind: 'report-stored'; readonly on: boolean }
  /** What it does now, and has done since the last snapshot. */
  | { readonly kind: 'snapshot'; readonly ticket: number }
  | { readonly kind: 'end-snapshots' }
  /** How many KV blocks may hold memory. */
  | { readonly kind: 'allow'; readonly blocks: number }
  /** How many threads may compute. */
  | { readonly kind: 'threads'; readonly count: number }
  /** Which model it is: from here on blocks that leave memory are kept. */
  | { readonly kind: 'identity'; readonly name: string; readonly identity: ModelIdentity }
  /** Deletes what is kept of a tenant's blocks. */
  | { readonly kind: 'remove-tenant'; readonly tenant: string }
  /** Saves, restores or erases what is known as a slot. */
  | { readonly kind: 'slot'; readonly ticket: number; readonly action: SlotAction }
  /** Ends it in good order: what is kept in memory alone is written down first, within a time. */
  | { readonly kind: 'end'; readonly withinMs: number }
  /** What tokens spell: comes before the first request with a grammar. */
  | { readonly kind: 'vocabulary'; readonly tables: VocabularyTables };

export type FromEngine =
  | { readonly kind: 'loading'; readonly share: number }
  | {
      readonly kind: 'ready';
      readonly backend: BackendName;
      readonly device?: string;
      readonly notice?: string;
    }
  /** The model cannot be served; trying again would end the same way. */
  | { readonly kind: 'unservable'; readonly message: string }
  /** It has no grammar by the key that the request names: the tables must be sent again. */
  | { readonly kind: 'unknown-grammar'; readonly id: string; readonly key: string }
  | { readonly kind: 'report'; readonly report: StepReport }
  /** What operators should know. */
  | { readonly kind: 'warning'; readonly message: string }
  /** In good order: nothing of it is lost any more. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'stats'; readonly ticket: number; readonly stats: EngineStats }
  | { readonly kind: 'slot'; readonly ticket: number; readonly result: SlotResult }
  | { readonly kind: 'snapshot'; readonly ticket: number; readonly view: EngineSnapshot };

/** Runs a command, once the model is loaded. */
export function handleCommand(engine: Engine, command: ToEngine, send: (message: FromEngine) => void): void {
  switch (command.kind) {
    case 'submit':
      for (const request of command.requests) submit(engine, request, send);
      break;
    case 'cancel':
      for (const id of command.ids) engine.cancel(id);
      break;
    case 'stats':
      send({ kind: 'stats', ticket: command.ticket, stats: engine.stats(Date.now()) });
      break;
    case 'report-stats':
      engine.reportStats(command.on);
      break;
    case 'report-prefixes':
      engine.reportPrefixes(command.on);
      break;
    case 'report-stored':
      engine.reportStored(command.on);
      break;
    case 'snapshot':
      send({ kind: 'snapshot', ticket: command.ticket, view: engine.snapshot(Date.now()) });
      break;
    case 'end-snapshots':
      engine.endSnapshots();
      break;
    case 'allow':
      engine.allow(command.blocks);
      break;
    case 'threads':
      engine.useThreads(command.count);
      break;
    case 'vocabulary':
      engine.setVocabulary(command.tables);
      break;
    case 'identity':
      engine.identify(command.name, command.identity);
      break;
    case 'remove-tenant':
      engine.removeTenant(command.tenant);
      break;
    case 'slot': {
      const { ticket, action } = command;
      void engine.actOnSlot(action).then((result) => send({ kind: 'slot', ticket, result }));
      break;
    }
    case 'end':
      engine.end(unloadedError);
      void engine.closeTiers(command.withinMs).then(() => send({ kind: 'ended' }));
      break;
    case 'load':
      throw new Error('the model is loaded already');
  }
}

function submit(engine: Engine, request: SentRequest, send: (message: FromEngine) => void): void {
  const grammar = 'grammar' in request ? request.grammar : undefined;
  if (grammar === undefined || 'starts' in grammar.tables) {
    engine.submit(request as EngineRequest);
    return;
  }
  const { key } = grammar.tables;
  const tables = engine.grammarTables(key);
  if (tables === undefined) send({ kind: 'unknown-grammar', id: request.id, key });
  else engine.submit({ ...request, grammar: { ...grammar, tables } } as AnswerRequest);
}
