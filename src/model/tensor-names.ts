// How publishers name tensors. Each kind of layer brings the usual names of its own; a family, those that differ.

import type { WeightSource } from '../weights/weight-source.ts';

/** How experts are stored: in tensors of their own, or all in one, as mlx-lm does or as others do. */
export type ExpertLayout = 'each' | 'switch' | 'stacked' | 'stacked with gates and ups in one';

/** Folders of mlx-lm count as the hub's: most tensors have the same names there. */
export type Naming = 'gguf' | 'hugging-face';

export type Publisher = Naming | 'mlx';

/** Without its ending `.weight` or `.bias`; or with them, where they end otherwise. `*` stands for a number, as of an expert. */
type RoleName = string | { readonly weight?: string; readonly bias?: string };

/** What publishers call a tensor. In folders of mlx-lm names of the hub count, too. */
interface PublishedName {
  readonly hub?: RoleName;
  readonly mlx?: RoleName;
  readonly gguf?: RoleName;
}

export type UsualNames<Role extends string> = Readonly<Record<Role, PublishedName>>;

export type RoleNames = Readonly<Partial<Record<string, RoleName>>> & {
  readonly embedding?: string;
  readonly finalNorm?: string;
  /** What stands before a layer's number. */
  readonly layers?: string;
  /** What stands before names of an MTP head's layer, where what lies beside that is named like what is there once. */
  readonly mtpLayer?: string;
};

/** Names by role that differ from the usual ones, and those of what is there once. */
export type FamilyNames = Readonly<Partial<Record<keyof PublishedName, RoleNames>>>;

/** Names of tensors that belong together: of one layer, or of what is there once. */
export interface RoleTensors<Role extends string> {
  weight(role: Role, number?: number): string;
  bias(role: Role, number?: number): string;
  has(role: Role, number?: number): boolean;
}

export interface TensorNames {
  readonly embedding: string;
  readonly finalNorm: string;
  readonly head: string;
  /** Names are those of a model saved without its head. */
  readonly bodyAlone: boolean;
  model<Role extends string>(usual: UsualNames<Role>): RoleTensors<Role>;
  layer<Role extends string>(index: number, usual: UsualNames<Role>): RoleTensors<Role>;
  /** Of an MTP head: its layer, whose number would be `index`, and what lies beside that. */
  mtpLayer<Role extends string>(index: number, usual: UsualNames<Role>): RoleTensors<Role>;
  mtp<Role extends string>(index: number, usual: UsualNames<Role>): RoleTensors<Role>;
}

export function switchNames(module: string): RoleNames {
  return {
    switchGates: `${module}.gate_proj`,
    switchUps: `${module}.up_proj`,
    switchDowns: `${module}.down_proj`,
  };
}

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
  { body: 'model.text_model.', head: '' },
  { body: '', head: '' },
  { body: 'bert.', head: '' },
  { body: 'roberta.', head: '' },
] as const;

/** Before names of an MTP head, which some publish within the text model and some beside it. */
const mtpPrefixes = ['mtp.', 'language_model.mtp.', 'model.mtp.', 'model.language_model.mtp.'] as const;

type Tensors = Pick<WeightSource, 'tensors'>;

export function tensorNames(naming: Naming, weights: Tensors, own: FamilyNames = {}): TensorNames {
  return naming === 'gguf' ? ggufNames(weights, own) : folderNames(weights, own);
}

/** What a publisher calls them, whatever the file at hand does. */
export function publishedNames(publisher: Publisher, own: FamilyNames = {}): TensorNames {
  const none: Tensors = { tensors: new Map() };
  return publisher === 'gguf' ? ggufNames(none, own) : folderNames(none, own, publisher);
}

function ggufNames(weights: Tensors, own: FamilyNames): TensorNames {
  const tensors = roleTensors(['gguf'], own, weights);
  return {
    embedding: 'token_embd.weight',
    finalNorm: `${own.gguf?.finalNorm ?? 'output_norm'}.weight`,
    head: 'output.weight',
    bodyAlone: false,
    model: (usual) => tensors('', usual),
    layer: (index, usual) => tensors(`blk.${index}.`, usual),
    mtpLayer: (index, usual) => tensors(`blk.${index}.`, usual),
    mtp: (index, usual) => tensors(`blk.${index}.`, usual),
  };
}

/** Names of the publisher count where the file has none of both. */
function folderNames(weights: Tensors, own: FamilyNames, publisher?: Publisher): TensorNames {
  const { hub = {} } = own;
  const embedding = `${hub.embedding ?? 'embed_tokens'}.weight`;
  const prefix =
    huggingFacePrefixes.find(({ body }) => weights.tensors.has(body + embedding)) ?? huggingFacePrefixes[0];
  const mtpPrefix =
    hub.mtpLayer === undefined
      ? (mtpPrefixes.find((one) => weights.tensors.has(`${one}fc.weight`)) ?? mtpPrefixes[0])
      : prefix.body;
  const tensors = roleTensors(publisher === 'mlx' ? ['mlx', 'hub'] : ['hub', 'mlx'], own, weights);
  return {
    embedding: prefix.body + embedding,
    finalNorm: `${prefix.body}${hub.finalNorm ?? 'norm'}.weight`,
    head: `${prefix.head}lm_head.weight`,
    bodyAlone: prefix.body === '',
    model: (usual) => tensors(prefix.body, usual),
    layer: (index, usual) => tensors(`${prefix.body}${hub.layers ?? 'layers'}.${index}.`, usual),
    mtpLayer: (_, usual) => tensors(`${mtpPrefix}${hub.mtpLayer ?? 'layers.0.'}`, usual),
    mtp: (_, usual) => tensors(mtpPrefix, usual),
  };
}

/** By the first publisher whose weight the file has; by the first one where it has none. */
function roleTensors(publishers: readonly (keyof PublishedName)[], own: FamilyNames, { tensors }: Tensors) {
  return <Role extends string>(prefix: string, usual: UsualNames<Role>): RoleTensors<Role> => {
    const spell = (name: RoleName, ending: 'weight' | 'bias', number: number | undefined) => {
      const whole = typeof name === 'string' ? `${name}.${ending}` : (name[ending] ?? '');
      return prefix + whole.replace('*', String(number));
    };
    const nameOf = (role: Role, number?: number): RoleName => {
      const known = publishers
        .map((publisher) => own[publisher]?.[role] ?? usual[role][publisher])
        .filter((name) => name !== undefined);
      return known.find((name) => tensors.has(spell(name, 'weight', number))) ?? known[0] ?? role;
    };
    const weight = (role: Role, number?: number) => spell(nameOf(role, number), 'weight', number);
    return {
      weight,
      bias: (role, number) => spell(nameOf(role, number), 'bias', number),
      has: (role, number) => tensors.has(weight(role, number)),
    };
  };
}
