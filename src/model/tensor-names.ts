// How publishers name tensors. Each kind of layer brings the usual names of its own; a family, those that differ.

import type { WeightSource } from '../weights/weight-source.ts';

/** How experts are stored: in tensors of their own, or all in one, as mlx-lm does or as others do. */
export type ExpertLayout = 'each' | 'switch' | 'stacked' | 'stacked with gates and ups in one';

/** Folders of mlx-lm are told by single tensors from those of the hub, whose names most of theirs have. */
export type Naming = 'gguf' | 'hugging-face';

/** Who names tensors. */
export type Publisher = Naming | 'mlx';

/** Without its ending `.weight` or `.bias`; or with them, where they end otherwise. `*` stands for a number, as of an expert. */
type RoleName = string | { readonly weight?: string; readonly bias?: string };

export type RoleNames<Role extends string = string> = Readonly<Partial<Record<Role, RoleName>>>;

/** What tensors are called, by their roles. In folders of mlx-lm names of the hub count, too. */
export type PublishedNames<Role extends string = string> = Readonly<
  Partial<Record<Publisher, RoleNames<Role>>>
>;

/** Names that differ from the usual ones of a layer, and those of what is there once. */
export type FamilyNames = Readonly<
  Partial<
    Record<
      Publisher,
      RoleNames & {
        readonly embedding?: string;
        readonly finalNorm?: string;
        /** What stands before a layer's number. */
        readonly layers?: string;
      }
    >
  >
>;

/** Names of tensors that belong together: of one layer, or of what is there once. */
export interface RoleTensors<Role extends string> {
  weight(role: Role, number?: number): string;
  bias(role: Role, number?: number): string;
  /** Whether the file has the weight. */
  has(role: Role, number?: number): boolean;
}

export interface TensorNames {
  readonly embedding: string;
  readonly finalNorm: string;
  readonly head: string;
  /** Names are those of a model saved without its head. */
  readonly bodyAlone: boolean;
  model<Role extends string>(names: PublishedNames<Role>): RoleTensors<Role>;
  layer<Role extends string>(index: number, names: PublishedNames<Role>): RoleTensors<Role>;
}

/** Experts of mlx-lm, by the module that holds them. */
export function switchNames(module: string): RoleNames {
  return {
    switchGates: `${module}.gate_proj`,
    switchUps: `${module}.up_proj`,
    switchDowns: `${module}.down_proj`,
  };
}

/** The hub's names of norms before and after each branch. */
export const sandwichNorms: RoleNames = {
  attentionPostNorm: 'post_attention_layernorm',
  ffnNorm: 'pre_feedforward_layernorm',
  ffnPostNorm: 'post_feedforward_layernorm',
};

/** The hub's names of several shared experts, stored as one. */
export const sharedExpertsNames: RoleNames = {
  sharedGate: 'mlp.shared_experts.gate_proj',
  sharedUp: 'mlp.shared_experts.up_proj',
  sharedDown: 'mlp.shared_experts.down_proj',
};

// A text model may lie inside a multimodal checkpoint, whose age decides which prefix it has. An embedding model is often
// saved as the body alone.
const huggingFacePrefixes = [
  { body: 'model.', head: '' },
  { body: 'language_model.model.', head: 'language_model.' },
  { body: 'model.language_model.', head: '' },
  { body: '', head: '' },
  { body: 'bert.', head: '' },
] as const;

type Tensors = Pick<WeightSource, 'tensors'>;

export function tensorNames(naming: Naming, weights: Tensors, own: FamilyNames = {}): TensorNames {
  return naming === 'gguf' ? ggufNames(weights, own) : folderNames(weights, own);
}

/** What a publisher calls them, whatever the file at hand does. */
export function publishedNames(publisher: Publisher, own: FamilyNames = {}): TensorNames {
  const none: Tensors = { tensors: new Map() };
  return publisher === 'gguf' ? ggufNames(none, own) : folderNames(none, own, publisher);
}

function ggufNames(weights: Tensors, { gguf: own }: FamilyNames): TensorNames {
  return {
    embedding: 'token_embd.weight',
    finalNorm: `${own?.finalNorm ?? 'output_norm'}.weight`,
    head: 'output.weight',
    bodyAlone: false,
    model: ({ gguf }) => roleTensors('', [{ ...gguf, ...own }], weights),
    layer: (index, { gguf }) => roleTensors(`blk.${index}.`, [{ ...gguf, ...own }], weights),
  };
}

/** Names of the publisher count where the file has none of both. */
function folderNames(
  weights: Tensors,
  { 'hugging-face': own, mlx: ownMlx }: FamilyNames,
  publisher: Exclude<Publisher, 'gguf'> = 'hugging-face',
): TensorNames {
  const embedding = `${own?.embedding ?? 'embed_tokens'}.weight`;
  const prefix =
    huggingFacePrefixes.find(({ body }) => weights.tensors.has(body + embedding)) ?? huggingFacePrefixes[0];
  const tables = ({ 'hugging-face': usual, mlx }: PublishedNames) => {
    const both = [
      { ...usual, ...own },
      { ...mlx, ...ownMlx },
    ];
    return publisher === 'mlx' ? both.reverse() : both;
  };
  return {
    embedding: prefix.body + embedding,
    finalNorm: `${prefix.body}${own?.finalNorm ?? 'norm'}.weight`,
    head: `${prefix.head}lm_head.weight`,
    bodyAlone: prefix.body === '',
    model: (names) => roleTensors(prefix.body, tables(names), weights),
    layer: (index, names) =>
      roleTensors(`${prefix.body}${own?.layers ?? 'layers'}.${index}.`, tables(names), weights),
  };
}

/** By the first table whose weight the file has; by the first one where it has none. */
function roleTensors(
  prefix: string,
  tables: readonly RoleNames[],
  { tensors }: Tensors,
): RoleTensors<string> {
  const spell = (name: RoleName, ending: 'weight' | 'bias', number: number | undefined) => {
    const whole = typeof name === 'string' ? `${name}.${ending}` : (name[ending] ?? '');
    return prefix + whole.replace('*', String(number));
  };
  const nameOf = (role: string, number?: number): RoleName => {
    const known = tables.map((table) => table[role]).filter((name) => name !== undefined);
    return known.find((name) => tensors.has(spell(name, 'weight', number))) ?? known[0] ?? role;
  };
  const weight = (role: string, number?: number) => spell(nameOf(role, number), 'weight', number);
  return {
    weight,
    bias: (role, number) => spell(nameOf(role, number), 'bias', number),
    has: (role, number) => tensors.has(weight(role, number)),
  };
}
