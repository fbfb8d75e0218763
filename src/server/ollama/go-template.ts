// Templates as Ollama has them, in the language of Go's text/template: what prompts are written with, without definitions of
// further templates. `prompt-template.ts` says what is rendered.

export class TemplateError extends Error {
  override readonly name = 'TemplateError';
}

type Node =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'print'; readonly pipeline: Pipeline }
  | {
      readonly kind: 'if' | 'with';
      readonly branches: readonly Branch[];
      readonly otherwise: readonly Node[];
    }
  | { readonly kind: 'range'; readonly branches: readonly Branch[]; readonly otherwise: readonly Node[] };

interface Branch {
  readonly pipeline: Pipeline;
  readonly body: readonly Node[];
}

interface Pipeline {
  /** `$name`s that it sets; two where a range has the index, too. */
  readonly sets: readonly string[];
  /** With `:=`; `=` sets a variable where it was declared. */
  readonly declares: boolean;
  readonly commands: readonly (readonly Operand[])[];
}

type Operand =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'path'; readonly from: string; readonly fields: readonly string[] }
  | { readonly kind: 'nested'; readonly pipeline: Pipeline; readonly fields: readonly string[] }
  | { readonly kind: 'function'; readonly name: string };

interface Scope {
  readonly dot: unknown;
  readonly variables: Map<string, unknown>;
  readonly parent: Scope | undefined;
  readonly budget: Budget;
}

/** What is left of a prompt's rendering: ranges within ranges could go on for ever, on the thread that serves requests. */
interface Budget {
  /** Nodes, operands and items of ranges. */
  nodes: number;
  /** Of the prompt, and of what functions make. */
  characters: number;
}

const MAX_NODES = 1_000_000;
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Characters that a function reads in the time that it takes to make one. */
const READ_PER_MADE = 16;
/** Reading takes quadratic time at worst. */
export const MAX_TEMPLATE = 16_384;

export type GoTemplate = (data: Readonly<Record<string, unknown>>, budget?: Budget) => string;

/** One for all renderings of a prompt. */
export function templateBudget(): Budget {
  return { nodes: MAX_NODES, characters: MAX_CHARACTERS };
}

export function goTemplate(source: string): GoTemplate {
  if (source.length > MAX_TEMPLATE) throw new TemplateError(`is longer than ${MAX_TEMPLATE} characters`);
  const nodes = new TemplateReader(source).nodes();
  return (data, budget = templateBudget()) =>
    render(nodes, { dot: data, variables: new Map([['$', data]]), parent: undefined, budget });
}

interface Action {
  readonly word: string;
  readonly rest: string;
}

/** Splits the source into text and actions, and nests them. */
class TemplateReader {
  readonly #pieces: (string | Action)[] = [];
  #at = 0;

  constructor(source: string) {
    let from = 0;
    let trims = false;
    const pattern = /\{\{(-(?=\s))?((?:"(?:\\.|[^"\\])*"|`[^`]*`|[^"`])*?)((?<=\s)-)?\}\}/y;
    for (;;) {
      const start = source.indexOf('{{', from);
      if (start < 0) break;
      pattern.lastIndex = start;
      const match = pattern.exec(source);
      if (match === null) throw new TemplateError('an action is not closed');
      const [, before, inside = '', after] = match;
      this.#text(source.slice(from, start), trims, before !== undefined);
      const action = inside.trim();
      const [, word = '', rest = ''] =
        /^(if|else|range|with|end|break|continue|define|template|block)?(?![\w.])(.*)$/s.exec(action) ?? [];
      if (!action.startsWith('/*')) this.#pieces.push({ word, rest: (word === '' ? action : rest).trim() });
      from = pattern.lastIndex;
      trims = after !== undefined;
    }
    this.#text(source.slice(from), trims, false);
  }

  #text(text: string, trimsStart: boolean, trimsEnd: boolean): void {
    const started = trimsStart ? text.trimStart() : text;
    const kept = trimsEnd ? started.trimEnd() : started;
    if (kept !== '') this.#pieces.push(kept);
  }

  nodes(): Node[] {
    const { body, end } = this.#body();
    if (end !== undefined) throw new TemplateError(`there is an ${end.word} without a beginning`);
    return body;
  }

  #body(): { readonly body: Node[]; readonly end: Action | undefined } {
    const body: Node[] = [];
    for (;;) {
      const piece = this.#pieces[this.#at++];
      if (piece === undefined) return { body, end: undefined };
      if (typeof piece === 'string') body.push({ kind: 'text', text: piece });
      else if (piece.word === 'end' || piece.word === 'else') return { body, end: piece };
      else if (piece.word === '') body.push({ kind: 'print', pipeline: readPipeline(piece.rest) });
      else if (piece.word === 'if' || piece.word === 'with' || piece.word === 'range') {
        body.push(this.#block(piece.word, piece.rest));
      } else throw new TemplateError(`${piece.word} is not supported`);
    }
  }

  #block(kind: 'if' | 'with' | 'range', first: string): Node {
    const branches: Branch[] = [];
    let condition: string | undefined = first;
    for (;;) {
      const { body, end } = this.#body();
      if (end === undefined) throw new TemplateError(`${kind} has no end`);
      if (condition === undefined) {
        if (end.word !== 'end') throw new TemplateError(`${kind} has two else`);
        return { kind, branches, otherwise: body };
      }
      branches.push({ pipeline: readPipeline(condition, kind === 'range' ? 2 : 1), body });
      if (end.word === 'end') return { kind, branches, otherwise: [] };
      condition = end.rest === '' ? undefined : end.rest.replace(/^(if|with)\s/, '');
    }
  }
}

const TOKEN =
  /\s+|("(?:\\.|[^"\\])*")|`([^`]*)`|(-?\d+(?:\.\d+)?)|(:=|=|[|(),])|(\$\w*(?:\.\w+)*|\.(?:\w+(?:\.\w+)*)?)|([A-Za-z_]\w*)/y;

function tokensOf(source: string): string[] {
  const tokens: string[] = [];
  for (let at = 0; at < source.length; at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const [token] = TOKEN.exec(source) ?? [];
    if (token === undefined) throw new TemplateError(`'${source.slice(at, at + 20)}' cannot be read`);
    if (token.trim() !== '') tokens.push(token);
  }
  return tokens;
}

/** `mostSets`: how many variables it may set. */
function readPipeline(source: string, mostSets = 1): Pipeline {
  const tokens = tokensOf(source);
  const assigned = tokens.findIndex((token) => token === ':=' || token === '=');
  const before = tokens.splice(0, assigned + 1);
  if (before.length > 0 && !/^\$\w*(,\$\w*)?:?=$/.test(before.join(''))) {
    throw new TemplateError('only variables can be set');
  }
  const sets = before.filter((token) => token.startsWith('$'));
  if (sets.length > mostSets) throw new TemplateError('only a range sets two variables');
  const pipeline = pipelineOf(tokens, sets, before.at(-1) === ':=');
  if (tokens.length > 0) throw new TemplateError(`'${tokens[0]}' is out of place`);
  return pipeline;
}

function pipelineOf(tokens: string[], sets: readonly string[] = [], declares = false): Pipeline {
  const commands: Operand[][] = [[]];
  while (tokens.length > 0 && tokens[0] !== ')') {
    const token = tokens.shift() as string;
    if (token === '|') commands.push([]);
    else commands.at(-1)?.push(operandOf(token, tokens));
  }
  if (commands.some((one) => one.length === 0)) throw new TemplateError('an action is empty');
  return { sets, declares, commands };
}

const literals: Readonly<Record<string, unknown>> = { true: true, false: false, nil: undefined };

function operandOf(token: string, rest: string[]): Operand {
  if (token === '(') {
    const pipeline = pipelineOf(rest);
    if (rest.shift() !== ')') throw new TemplateError('a parenthesis is not closed');
    const fields =
      rest[0]?.startsWith('.') && rest[0] !== '.' ? (rest.shift() as string).slice(1).split('.') : [];
    return { kind: 'nested', pipeline, fields };
  }
  if (token.startsWith('"')) return { kind: 'value', value: unquoted(token) };
  if (token.startsWith('`')) return { kind: 'value', value: token.slice(1, -1) };
  if (/^-?\d/.test(token)) return { kind: 'value', value: Number(token) };
  if (token.startsWith('.') || token.startsWith('$')) {
    const [from = '', ...fields] = token.split('.');
    return { kind: 'path', from, fields: fields.filter((field) => field !== '') };
  }
  if (Object.hasOwn(literals, token)) return { kind: 'value', value: literals[token] };
  if (!Object.hasOwn(functions, token)) throw new TemplateError(`there is no function ${token}`);
  return { kind: 'function', name: token };
}

function unquoted(token: string): string {
  try {
    return JSON.parse(token) as string;
  } catch {
    throw new TemplateError(`${token} is no text`);
  }
}

function render(nodes: readonly Node[], scope: Scope): string {
  return nodes.map((node) => renderNode(node, scope)).join('');
}

function renderNode(node: Node, scope: Scope): string {
  step(scope);
  if (node.kind === 'text') return spent(node.text, scope);
  if (node.kind === 'print') {
    const value = evaluate(node.pipeline, scope);
    return node.pipeline.sets.length > 0 ? '' : spent(printed(value), scope);
  }
  let inner = scope;
  for (const { pipeline, body } of node.branches) {
    // What a condition declares is there in the branches after it, too.
    inner = within(inner, scope.dot);
    const value = evaluate(pipeline, inner);
    if (node.kind === 'range') {
      const items = entriesOf(value);
      if (items.length > 0) return items.map((item) => renderItem(pipeline, body, item, inner)).join('');
    } else if (isTrue(value)) return render(body, within(inner, node.kind === 'with' ? value : inner.dot));
  }
  return render(node.otherwise, within(inner, scope.dot));
}

function renderItem(
  { sets: [first, second], declares }: Pipeline,
  body: readonly Node[],
  [key, value]: readonly [unknown, unknown],
  scope: Scope,
): string {
  step(scope);
  if (first !== undefined) setVariable(first, second === undefined ? value : key, declares, scope);
  if (second !== undefined) setVariable(second, value, declares, scope);
  return render(body, within(scope, value));
}

function step({ budget }: Scope, count = 1): void {
  budget.nodes -= count;
  if (budget.nodes < 0) throw new TemplateError('takes too long');
}

function spent(text: string, { budget }: Pick<Scope, 'budget'>): string {
  spend(text.length, budget);
  return text;
}

function spend(characters: number, budget: Budget): void {
  budget.characters -= characters;
  if (budget.characters < 0) throw new TemplateError('makes a prompt that is too long');
}

function within(parent: Scope, dot: unknown): Scope {
  return { dot, variables: new Map(), parent, budget: parent.budget };
}

function setVariable(name: string, value: unknown, declares: boolean, scope: Scope): void {
  const { variables } = declares ? scope : declaring(name, scope);
  variables.set(name, value);
}

/** The innermost scope that has declared the variable. */
function declaring(name: string, scope: Scope): Scope {
  for (let one: Scope | undefined = scope; one !== undefined; one = one.parent) {
    step(scope);
    if (one.variables.has(name)) return one;
  }
  throw new TemplateError(`there is no variable ${name}`);
}

function entriesOf(value: unknown): readonly (readonly [unknown, unknown])[] {
  if (Array.isArray(value)) return [...value.entries()];
  // Go goes through maps by their sorted keys.
  return typeof value === 'object' && value !== null
    ? Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
    : [];
}

function evaluate({ sets, declares, commands }: Pipeline, scope: Scope): unknown {
  let value: unknown;
  for (const [at, [first, ...rest]] of commands.entries()) {
    const given = [...rest.map((operand) => operandValue(operand, scope)), ...(at === 0 ? [] : [value])];
    if (first?.kind === 'function') value = call(first.name, given, scope);
    else if (first !== undefined && given.length === 0) value = operandValue(first, scope);
    else throw new TemplateError('a value is no function, and takes nothing');
  }
  for (const name of sets) setVariable(name, value, declares, scope);
  return value;
}

function call(name: string, given: Values, scope: Scope): unknown {
  step(scope);
  return functions[name]?.(given, scope.budget);
}

function operandValue(operand: Operand, scope: Scope): unknown {
  step(scope);
  switch (operand.kind) {
    case 'value':
      return operand.value;
    case 'function':
      return call(operand.name, [], scope);
    case 'nested':
      step(scope, operand.fields.length);
      return fieldOf(evaluate(operand.pipeline, scope), operand.fields);
    case 'path': {
      const { from, fields } = operand;
      step(scope, fields.length);
      return fieldOf(from === '' ? scope.dot : declaring(from, scope).variables.get(from), fields);
    }
  }
}

function fieldOf(value: unknown, fields: readonly string[]): unknown {
  return fields.reduce<unknown>(
    (held, field) =>
      typeof held === 'object' && held !== null && Object.hasOwn(held, field)
        ? (held as Record<string, unknown>)[field]
        : undefined,
    value,
  );
}

function isTrue(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

function printed(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

type Values = readonly unknown[];

/** The first value that decides, or else the last one. */
function firstOrLast(given: Values, decides: (value: unknown) => boolean): unknown {
  const at = given.findIndex(decides);
  return given.at(at);
}

type TemplateFunction = (given: Values, budget: Budget) => unknown;

function lengthOf([value]: Values, budget: Budget): number {
  if (typeof value === 'string') {
    spend(value.length / READ_PER_MADE, budget);
    return Buffer.byteLength(value);
  }
  if (Array.isArray(value)) return value.length;
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

function isEqual(first: unknown, second: unknown, budget: Budget): boolean {
  if (typeof first === 'string' && typeof second === 'string') spendComparison(first, second, budget);
  return first === second;
}

/** Less than 0 where the first comes first. */
function order([first, second]: Values, budget: Budget): number {
  if (typeof first === 'number' && typeof second === 'number') return first - second;
  if (typeof first !== 'string' || typeof second !== 'string') {
    throw new TemplateError('only two numbers or two texts can be compared');
  }
  spendComparison(first, second, budget);
  return first < second ? -1 : Number(first > second);
}

function spendComparison(first: string, second: string, budget: Budget): void {
  spend(Math.min(first.length, second.length) / READ_PER_MADE, budget);
}

function sliced([held, from = 0, to]: Values, budget: Budget): unknown {
  if (typeof held !== 'string' && !Array.isArray(held)) {
    throw new TemplateError('slice takes a text or a list');
  }
  const isPlace = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
  if (!isPlace(from) || !(to === undefined || isPlace(to))) {
    throw new TemplateError('slice takes whole numbers from 0');
  }
  const part = held.slice(from, to);
  spend(part.length, budget);
  return part;
}

const functions: Readonly<Record<string, TemplateFunction>> = {
  and: (given) => firstOrLast(given, (one) => !isTrue(one)),
  or: (given) => firstOrLast(given, isTrue),
  not: ([given]) => !isTrue(given),
  eq: ([first, ...others], budget) => others.some((other) => isEqual(first, other, budget)),
  ne: ([first, second], budget) => !isEqual(first, second, budget),
  lt: (given, budget) => order(given, budget) < 0,
  le: (given, budget) => order(given, budget) <= 0,
  gt: (given, budget) => order(given, budget) > 0,
  ge: (given, budget) => order(given, budget) >= 0,
  len: lengthOf,
  index: ([held, ...keys]) => keys.reduce((value: unknown, key) => fieldOf(value, [String(key)]), held),
  slice: sliced,
  print: (given, budget) => given.map((one) => spent(printed(one), { budget })).join(''),
  // Go writes these as escapes.
  json: ([given], budget) =>
    spent(JSON.stringify(given ?? null), { budget }).replace(
      /[<>&]/g,
      (one) => `\\u00${one.charCodeAt(0).toString(16)}`,
    ),
  currentDate: () => new Date().toISOString().slice(0, 10),
};
