// The linear maps of a model that adapters may add to, each with a place that is the same whatever its tensors are called.

import type {
  BodySpec,
  ExpertsSpec,
  FeedForwardSpec,
  LayerSpec,
  LinearSpec,
  ModelSpec,
  PartSpec,
} from './spec.ts';

/** Which expert a map is of, where it is of one. */
export interface ExpertPlace {
  readonly index: number;
  readonly count: number;
}

/** What becomes of a linear map, by its place. */
type Adapt = (linear: LinearSpec, place: string, expert?: ExpertPlace) => LinearSpec;

export function mapLinears(spec: ModelSpec, adapt: Adapt): ModelSpec {
  return {
    ...spec,
    layers: spec.layers.map((layer, index) => mapLayer(layer, within(adapt, `${index}`))),
    head: adapt(spec.head, 'head'),
  };
}

export function linearsByPlace(spec: ModelSpec): ReadonlyMap<string, LinearSpec> {
  const all = new Map<string, LinearSpec>();
  mapLinears(spec, (linear, place) => {
    all.set(place, linear);
    return linear;
  });
  return all;
}

function mapLayer(layer: LayerSpec, adapt: Adapt): LayerSpec {
  const branches = layer.branches.map((branch, at) => ({
    ...branch,
    parts: branch.parts.map((part, index) => mapPart(part, within(adapt, `${at}.${index}`))),
  }));
  return { ...layer, branches };
}

function mapPart(part: PartSpec, adapt: Adapt): PartSpec {
  return { ...part, body: mapBody(part.body, within(adapt, kindOf(part.body))) };
}

function within(adapt: Adapt, outer: string): Adapt {
  return (linear, place, expert) => adapt(linear, `${outer}.${place}`, expert);
}

/** Where heads are sorted differently, matrices of the same role are not the same. */
function kindOf(body: BodySpec): string {
  return body.kind === 'delta-net' ? `${body.kind}, ${body.sharing}` : body.kind;
}

function mapBody(body: BodySpec, adapt: Adapt): BodySpec {
  switch (body.kind) {
    case 'attention': {
      const { stored, gate } = body;
      const value = stored?.value && adapt(stored.value, 'value');
      return {
        ...body,
        query: adapt(body.query, 'query'),
        ...(stored && { stored: { ...stored, key: adapt(stored.key, 'key'), ...(value && { value }) } }),
        ...(gate && { gate: adapt(gate, 'gate') }),
        output: adapt(body.output, 'output'),
      };
    }
    case 'latent-attention': {
      const { queryInput } = body;
      return {
        ...body,
        ...(queryInput && { queryInput: { ...queryInput, down: adapt(queryInput.down, 'queryInput') } }),
        ...mapped(body, ['query', 'queryRotated', 'latent', 'keyRotated', 'output'], adapt),
      };
    }
    case 'feed-forward':
      return mapFeedForward(body, adapt);
    case 'delta-net':
      return {
        ...body,
        ...mapped(body, ['query', 'key', 'value', 'share', 'decay', 'gate', 'output'], adapt),
      };
    case 'short-convolution':
      return { ...body, ...mapped(body, ['before', 'after', 'value', 'output'], adapt) };
    case 'state-space':
      return { ...body, ...mapped(body, ['value', 'write', 'read', 'step', 'gate', 'output'], adapt) };
    case 'experts':
      return mapExperts(body, adapt);
    case 'layer-input':
    case 'low-rank':
      return body;
  }
}

function mapFeedForward(body: FeedForwardSpec, adapt: Adapt): FeedForwardSpec {
  const { gate, share } = body;
  return {
    ...body,
    ...(gate && { gate: adapt(gate, 'gate') }),
    ...mapped(body, ['up', 'down'], adapt),
    ...(share && { share: adapt(share, 'share') }),
  };
}

function mapExperts(body: ExpertsSpec, adapt: Adapt): ExpertsSpec {
  const { router, experts } = body;
  return {
    ...body,
    router: { ...router, linear: adapt(router.linear, 'router') },
    experts: experts.map((expert, index) =>
      mapFeedForward(expert, (linear, role) =>
        adapt(linear, `${index}.${role}`, { index, count: experts.length }),
      ),
    ),
  };
}

function mapped<Role extends string>(
  body: Readonly<Record<Role, LinearSpec>>,
  roles: readonly Role[],
  adapt: Adapt,
): Record<Role, LinearSpec> {
  return Object.fromEntries(roles.map((role) => [role, adapt(body[role], role)])) as Record<Role, LinearSpec>;
}
