// Turns a conversation into the one text a model was trained on, by the model's own Jinja template.
// A model without a template has none here either: a guessed one would be wrong in silence.

import { Environment, parse, tokenize } from '@huggingface/jinja';
import { messageOf } from '../runtime/error-message.ts';
import { type DetectedFormat, detectFormat } from './formats/detect.ts';
import { PythonInterpreter } from './jinja-interpreter.ts';

interface ChatInput {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly tools?: readonly unknown[] | undefined;
  /** Ends the text where the assistant's answer begins. */
  readonly addGenerationPrompt: boolean;
  /** Ends the text within the last message, without what ends a turn, so that the answer goes on with it. */
  readonly continueFinalMessage?: boolean | undefined;
  /** Further variables that some templates know, such as `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** What `strftime_now` tells; the present moment where absent. */
  readonly now?: Date | undefined;
}

export interface ChatTemplateSource {
  readonly template: string;
  /** Preferred where tools are given; some models have a second template for them. */
  readonly toolTemplate?: string | undefined;
  /** `bos_token`, `eos_token` and the like, as the template names them. */
  readonly specialTokens: Readonly<Record<string, string>>;
}

export interface ChatTemplate {
  /** How the model writes reasoning and calls, as far as the template tells. */
  readonly format: DetectedFormat;
  /** Whether it writes down the calls of earlier turns. */
  readonly rendersCalls: boolean;
  /** As the model's author wrote it. */
  readonly source: string;
  render(input: ChatInput): string;
}

/** The template cannot be read, or refuses the conversation. */
export class ChatTemplateError extends Error {
  constructor(what: string, cause: unknown) {
    super(`${what}: ${messageOf(cause)}`, { cause });
    this.name = 'ChatTemplateError';
  }
}

type Program = ReturnType<typeof parse>;

/** Marks where the last message ends in what a template makes of it. The space tells whether it trims messages. */
const END_MARK = 'END_OF_THE_FINAL_MESSAGE ';

export function chatTemplate(source: ChatTemplateSource): ChatTemplate {
  const program = compile(source.template);
  const toolProgram = source.toolTemplate === undefined ? program : compile(source.toolTemplate);
  return {
    format: detectFormat(source.toolTemplate ?? source.template),
    source: source.template,
    rendersCalls: (source.toolTemplate ?? source.template).includes('tool_calls'),
    render(input) {
      const hasTools = input.tools !== undefined && input.tools.length > 0;
      const variables = {
        ...globals(input.now ?? new Date()),
        ...source.specialTokens,
        documents: null,
        ...input.variables,
        messages: input.messages,
        // Templates test these against none, so that they must be there.
        tools: hasTools ? input.tools : null,
        add_generation_prompt: input.addGenerationPrompt,
      };
      const used = hasTools ? toolProgram : program;
      if (input.continueFinalMessage !== true) return run(used, variables);
      return upToMark(run(used, { ...variables, messages: withMark(input.messages) }));
    },
  };
}

function withMark(messages: ChatInput['messages']): ChatInput['messages'] {
  const last = messages.at(-1);
  return [...messages.slice(0, -1), { ...last, content: `${last?.content ?? ''}${END_MARK}` }];
}

function upToMark(rendered: string): string {
  const end = rendered.lastIndexOf(END_MARK.trimEnd());
  if (end === -1) {
    const cause = 'it does not show the last message, so there is nothing to go on with';
    throw new ChatTemplateError('the chat template cannot continue this conversation', cause);
  }
  const kept = rendered.slice(0, end);
  return rendered.startsWith(END_MARK, end) ? kept : kept.trimEnd();
}

function compile(template: string): Program {
  try {
    return parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }));
  } catch (error) {
    throw new ChatTemplateError('the chat template cannot be read', error);
  }
}

function run(program: Program, variables: Readonly<Record<string, unknown>>): string {
  try {
    const environment = new Environment();
    for (const [name, value] of Object.entries(variables)) environment.set(name, value);
    const result = new PythonInterpreter(environment).run(program);
    return String(result.value);
  } catch (error) {
    throw new ChatTemplateError('the chat template refuses this conversation', error);
  }
}

function globals(now: Date): Record<string, unknown> {
  return {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    range,
    raise_exception: (message: unknown) => {
      throw new Error(String(message));
    },
    strftime_now: (format: unknown) => formatTime(now, String(format)),
  };
}

/** Python's range: one argument is the end. */
function range(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  if (step === 0) throw new Error('range() needs a step other than zero');
  const numbers: number[] = [];
  for (let value = start; step > 0 ? value < end : value > end; value += step) numbers.push(value);
  return numbers;
}

const months = 'January February March April May June July August September October November December'.split(
  ' ',
);
const weekdays = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const twoDigits = (value: number): string => String(value).padStart(2, '0');
const monthName = (time: Date): string => months[time.getMonth()] as string;
const weekdayName = (time: Date): string => weekdays[time.getDay()] as string;
const hourOfTwelve = (time: Date): number => time.getHours() % 12 || 12;

const directives: Readonly<Record<string, (time: Date) => string>> = {
  Y: (time) => String(time.getFullYear()),
  y: (time) => twoDigits(time.getFullYear() % 100),
  m: (time) => twoDigits(time.getMonth() + 1),
  B: monthName,
  b: (time) => monthName(time).slice(0, 3),
  d: (time) => twoDigits(time.getDate()),
  e: (time) => String(time.getDate()).padStart(2, ' '),
  A: weekdayName,
  a: (time) => weekdayName(time).slice(0, 3),
  H: (time) => twoDigits(time.getHours()),
  I: (time) => twoDigits(hourOfTwelve(time)),
  M: (time) => twoDigits(time.getMinutes()),
  S: (time) => twoDigits(time.getSeconds()),
  p: (time) => (time.getHours() < 12 ? 'AM' : 'PM'),
  '%': () => '%',
};

/** Local time. `%-d` drops a leading zero; an unknown directive is an error that names it. */
export function formatTime(time: Date, format: string): string {
  return format.replace(/%(-?)(.?)/gsu, (whole, bare: string, name: string) => {
    const directive = directives[name];
    if (directive === undefined) throw new Error(`strftime_now does not know ${JSON.stringify(whole)}`);
    return bare === '-' ? directive(time).replace(/^[0 ](?=.)/, '') : directive(time);
  });
}
