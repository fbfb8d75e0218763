// What each role of a fleet may publish and subscribe at NATS, and no more: the one list, for documents, manifests and tests.

import { Subjects } from './bus.ts';

export type FleetRole = 'worker' | 'gateway';

export interface NatsPermissions {
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
  /** A node that is asked may reply: with so many messages, within that time. */
  readonly responses: { readonly max: number; readonly seconds: number };
}

interface PermissionsOptions {
  readonly fleet: string;
  readonly roles: readonly FleetRole[];
  /** Undefined: one user for all nodes of these roles, which can then read what is sent to each other. */
  readonly node?: string | undefined;
}

/** The largest answer, what a worker's prefix cache holds, has some megabytes in messages of one at most; loading is the slowest. */
const RESPONSES = { max: 1024, seconds: 1200 } as const;

export function natsPermissions({ fleet, roles, node = '*' }: PermissionsOptions): NatsPermissions {
  const subjects = new Subjects(fleet);
  const byRole = { worker: workerSubjects, gateway: gatewaySubjects };
  const lists = [nodeSubjects(subjects, node), ...roles.map((role) => byRole[role](subjects, fleet, node))];
  const all = (of: 'publish' | 'subscribe') => [...new Set(lists.flatMap((list) => list[of]))];
  return { publish: all('publish'), subscribe: all('subscribe'), responses: RESPONSES };
}

type SubjectLists = Pick<NatsPermissions, 'publish' | 'subscribe'>;

function nodeSubjects(subjects: Subjects, node: string): SubjectLists {
  return {
    publish: [subjects.name(node), '$JS.API.INFO'],
    subscribe: [subjects.everySummary, subjects.name(node), `${subjects.inbox(node)}.>`],
  };
}

/** It hears what is meant for it, tells gateways, and reads what is desired: it says nothing to other workers. */
function workerSubjects(subjects: Subjects, fleet: string, node: string): SubjectLists {
  const state = bucketName(fleet, 'state');
  return {
    publish: [
      subjects.status(node),
      subjects.news('*'),
      subjects.prefixes(node),
      `$JS.API.STREAM.INFO.KV_${state}`,
      `$JS.API.DIRECT.GET.KV_${state}.>`,
    ],
    // Its own status tells of another process by its name.
    subscribe: [subjects.work(node), subjects.ask(node), subjects.status(node)],
  };
}

function gatewaySubjects(subjects: Subjects, fleet: string, node: string): SubjectLists {
  const buckets = (['state', 'requests'] as const).map((name) => bucketName(fleet, name));
  return {
    publish: [
      subjects.summary(node),
      subjects.work('*'),
      subjects.ask('*'),
      ...buckets.flatMap((bucket) => [
        ...['INFO', 'CREATE', 'UPDATE', 'DELETE'].map((verb) => `$JS.API.STREAM.${verb}.KV_${bucket}`),
        `$JS.API.DIRECT.GET.KV_${bucket}.>`,
        `$KV.${bucket}.>`,
      ]),
    ],
    subscribe: [subjects.news(node), subjects.everyStatus, subjects.everyPrefixes],
  };
}

export function bucketName(fleet: string, content: 'state' | 'requests'): string {
  return `chairlift-${fleet}-${content}`;
}

/** As NATS' configuration files have it, indented to stand within a user. */
export function permissionsText({ publish, subscribe, responses }: NatsPermissions, indent = ''): string {
  const list = (subjects: readonly string[]) =>
    subjects.map((subject) => `\n${indent}    "${subject}"`).join('');
  return [
    `${indent}permissions {`,
    `${indent}  publish: [${list(publish)}\n${indent}  ]`,
    `${indent}  subscribe: [${list(subscribe)}\n${indent}  ]`,
    `${indent}  allow_responses { max: ${responses.max}, expires: "${responses.seconds}s" }`,
    `${indent}}`,
  ].join('\n');
}
