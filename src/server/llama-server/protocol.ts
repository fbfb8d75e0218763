// llama-server's /completion and /infill as protocols of this server.

import type { z } from 'zod';
import { requirementsFor } from '../../generation/response-format.ts';
import { wireNames } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { badRequest } from '../http/errors.ts';
import { namedEvents } from '../http/sse.ts';
import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { promptInput, splitPrompt } from '../openai/schemas/prompts.ts';
import { type SamplingBody, samplingOf } from '../openai/schemas/sampling.ts';
import { structuredOutputOf } from '../openai/schemas/structured-output.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { isPictured, picturedInput } from './image-prompts.ts';
import { adaptedModel, defaultModel } from './lora.ts';
import {
  type CommonGiven,
  completionRules,
  type completionSchema,
  infillRules,
  type infillSchema,
} from './schema.ts';
import { completionShape } from './shape.ts';

type CommonBody = SamplingBody & Pick<CommonGiven, 'n_predict' | 'n_probs'> & { readonly biases: Biases };
type Biases = readonly (readonly [token: number | string, bias: number | false])[];
type CompletionBody = CommonBody & Omit<z.infer<typeof completionSchema>, 'logit_bias'>;
type InfillBody = CommonBody & Omit<z.infer<typeof infillSchema>, 'logit_bias'>;

const commonKind = {
  names: () => ({ ...wireNames, prompt: 'prompt', maxTokens: 'n_predict', logprobs: 'n_probs' }),
  maxTokens,
  sampling(body: CommonBody, model: Pick<ServedModel, 'spec' | 'tokenizer'>) {
    const limit = maxTokens(body);
    const extras = {
      logprobs: body.n_probs === 0 ? undefined : body.n_probs,
      maxTokens: limit === 0 ? undefined : limit,
    };
    const biased = { ...body, logit_bias: biasesOf(body.biases, model) };
    const parameters = samplingOf(biased, extras, model, commonKind.names());
    return limit === 0 ? { ...parameters, maxTokens: 0 } : parameters;
  },
  echoes: () => false,
};

const completionKind: CompletionKind<CompletionBody> = {
  ...commonKind,
  prompts({ prompt, image_data: images }, { maxPrompts }) {
    const pictured = picturedInput(prompt, images);
    if (pictured !== undefined) return [pictured];
    if (isPictured(prompt)) throw new Error('a prompt with images was read as none');
    const several = splitPrompt(prompt);
    if (several.length > maxPrompts) {
      throw badRequest('prompt', `${several.length} prompts are too many; ${maxPrompts} are possible`);
    }
    return several.map((one) => promptInput(one));
  },
  responseFormat(body) {
    const output = structuredOutputOf(body);
    return output && requirementsFor(output, false);
  },
};

const infillKind: CompletionKind<InfillBody> = {
  ...commonKind,
  names: () => ({ ...commonKind.names(), prompt: 'input_prefix' }),
  prompts: ({ input_prefix: prefix = '', input_suffix: suffix = '', input_extra: files, prompt: begun }) => [
    { kind: 'gap', prefix, suffix, files, begun, suffixName: 'input_suffix' },
  ],
  responseFormat(body) {
    const output = structuredOutputOf(body);
    return output && requirementsFor(output, false);
  },
};

function read<Given extends CommonGiven>(
  { logit_bias: given = [], ...rest }: Given,
  request: RequestContext,
) {
  const { n, n_cmpl: answers, lora, grammar } = rest;
  const { pool, defaultAdapters } = request.context;
  const biases: Biases = Array.isArray(given) ? given : Object.entries(given);
  checkBiasedTexts(biases);
  return {
    ...rest,
    ...(n === undefined && answers !== undefined ? { n: answers } : {}),
    model:
      lora === undefined
        ? defaultModel(pool, rest.model, defaultAdapters)
        : adaptedModel(pool, rest.model, lora),
    // Clients send an empty grammar for none.
    ...(grammar === '' ? { grammar: undefined } : {}),
    biases,
  };
}

export const completionProtocol: Protocol<typeof completionSchema, CompletionBody> = {
  idMark: 'cmpl-',
  rules: completionRules,
  kind: completionKind,
  read,
  framing: namedEvents,
  resumable: true,
  shape: completionShape,
};

export const infillProtocol: Protocol<typeof infillSchema, InfillBody> = {
  idMark: 'infill-',
  rules: infillRules,
  kind: infillKind,
  read,
  framing: namedEvents,
  resumable: true,
  shape: completionShape,
};

/** -1 is no limit, and so is -2, which fills the context. */
function maxTokens({
  max_tokens,
  n_predict,
}: Pick<CommonBody, 'max_tokens' | 'n_predict'>): number | undefined {
  const limit = n_predict ?? max_tokens;
  return limit === -1 || limit === -2 ? undefined : limit;
}

/** As far as OpenAI's range goes, which is enough to rule a token out. */
const NEVER = -100;

/** Texts are encoded while all other requests wait. */
const MAX_BIASED_TEXTS = 300;
const MAX_BIASED_CHARACTERS = 64;

function checkBiasedTexts(biases: Biases): void {
  const texts = biases.flatMap(([named]) => (isText(named) ? [named] : []));
  if (texts.length > MAX_BIASED_TEXTS) {
    throw badRequest('logit_bias', `has ${texts.length} texts; ${MAX_BIASED_TEXTS} are possible`);
  }
  if (texts.some(({ length }) => length > MAX_BIASED_CHARACTERS)) {
    throw badRequest('logit_bias', `has a text of more than ${MAX_BIASED_CHARACTERS} characters`);
  }
}

/** Keys of an object are texts, and ids all the same. */
function isText(named: number | string): named is string {
  return typeof named === 'string' && !/^\d{1,10}$/.test(named);
}

/** All tokens of a text get its bias. Where a token is named twice, the last one counts. */
function biasesOf(biases: Biases, { tokenizer }: Pick<ServedModel, 'tokenizer'>): Record<string, number> {
  const byToken: Record<string, number> = {};
  for (const [named, given] of biases) {
    const value = given === false ? NEVER : given;
    const tokens = isText(named) ? tokenizer.encode(named, { special: true }) : [named];
    for (const token of tokens) byToken[String(token)] = value;
  }
  return byToken;
}
