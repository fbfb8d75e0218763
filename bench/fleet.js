// `npm run bench -- fleet`: what a fleet costs and keeps, on one machine, with real processes in network namespaces (fleet-lab.js).
// 1. Conversations over three workers: how much of their prompts is found in caches, beside one server with enough memory.
//    Left out with --conversations 0.
// 2. A stream by gateway, NATS and worker beside the same server asked directly: time to the first token, and throughput.
// Needs what fleet-lab.js needs. Ends in one JSON line.

import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { FleetLab, labRefusal } from '../scripts/fleet-lab.js';

const { values } = parseArgs({
  options: {
    conversations: { type: 'string', default: '200' },
    turns: { type: 'string', default: '8' },
    clients: { type: 'string', default: '4' },
    streams: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '256' },
    firsts: { type: 'string', default: '60' },
    rounds: { type: 'string', default: '3' },
  },
});
const [conversations, turns, clients, streams, tokens, firsts, rounds] = [
  values.conversations,
  values.turns,
  values.clients,
  values.streams,
  values.tokens,
  values.firsts,
  values.rounds,
].map(Number);

const refusal = labRefusal();
if (refusal !== undefined) throw new Error(refusal);
const lab = new FleetLab();
try {
  await lab.startNats();
  const cached = conversations > 0 ? await measureConversations() : undefined;
  const overhead = await measureOverhead();
  process.stdout.write(
    `${JSON.stringify({ benchmark: 'fleet', conversations, turns, clients, cached, streams, tokens, overhead })}\n`,
  );
} finally {
  await lab.stop();
}

async function measureConversations() {
  lab.addHost('alone');
  await lab.runServer('alone', '--allow-anonymous');
  const one = await allConversations([lab.url('alone')]);
  for (const name of ['worker1', 'worker2', 'worker3'])
    await lab.startNode(name, '--worker', '--threads', '1');
  for (const name of ['gateway1', 'gateway2']) await lab.startNode(name, '--gateway', '--allow-anonymous');
  await untilServed(lab.url('gateway1'));
  await untilServed(lab.url('gateway2'));
  const fleet = await allConversations([lab.url('gateway1'), lab.url('gateway2')]);
  for (const name of ['alone', 'worker1', 'worker2', 'worker3', 'gateway1', 'gateway2']) {
    await lab.kill(name, 'SIGTERM');
  }
  const share = fleet.cached / one.cached;
  process.stdout.write(
    `cached prompt tokens: one server ${one.cached} of ${one.prompt}, three workers ${fleet.cached} (${(100 * share).toFixed(1)} % of that)\n`,
  );
  return { one, fleet, share };
}

async function allConversations(gateways) {
  const counts = { prompt: 0, cached: 0 };
  const waiting = Array.from({ length: conversations }, (_, i) => i);
  const client = async () => {
    for (let i = waiting.shift(); i !== undefined; i = waiting.shift())
      await conversation(i, gateways, counts);
  };
  await Promise.all(Array.from({ length: clients }, client));
  return counts;
}

async function conversation(i, gateways, counts) {
  const messages = [
    {
      role: 'system',
      content: 'You know many stories about animals, and answer at length, in a friendly voice.',
    },
  ];
  for (let turn = 0; turn < turns; turn++) {
    const content = `Conversation ${i}, turn ${turn}: tell me more about animal number ${31 * i + turn}, and what it did near the river.`;
    messages.push({ role: 'user', content });
    const { choices, usage } = await ask(gateways[(i + turn) % gateways.length], {
      messages,
      max_tokens: 40,
      temperature: 0,
    });
    counts.prompt += usage.prompt_tokens;
    counts.cached += usage.prompt_tokens_details.cached_tokens;
    messages.push(choices[0].message);
  }
}

/** @returns {Promise<any>} */
async function ask(url, body) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** Both have one engine with as many threads; rounds alternate. */
async function measureOverhead() {
  lab.addHost('server');
  await lab.runServer('server', '--allow-anonymous', '--threads', '1');
  await lab.startNode('worker', '--worker', '--threads', '1');
  await lab.startNode('gateway', '--gateway', '--allow-anonymous');
  const [direct, byFleet] = [lab.url('server'), lab.url('gateway')];
  await untilServed(byFleet);
  for (const url of [direct, byFleet]) await load(url);
  /** @type {{ direct: number[], fleet: number[] }} */
  const waits = { direct: [], fleet: [] };
  const speeds = { direct: [], fleet: [] };
  const processor = {};
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < firsts; i++) {
      waits.direct.push(await firstTokenMs(direct));
      waits.fleet.push(await firstTokenMs(byFleet));
    }
    for (const [name, url] of [
      ['direct', direct],
      ['fleet', byFleet],
    ]) {
      const before = processorTimes();
      speeds[name].push(await load(url));
      for (const [host, seconds] of Object.entries(processorTimes())) {
        const kind = `${name}, ${host}`;
        processor[kind] = (processor[kind] ?? 0) + seconds - before[host];
      }
    }
  }
  const millions = (rounds * streams * tokens) / 1e6;
  for (const kind of Object.keys(processor)) processor[kind] /= millions;
  const firstTokenMsMore = median(waits.fleet.map((wait, i) => wait - waits.direct[i]));
  const throughput = median(speeds.fleet.map((speed, i) => speed / speeds.direct[i]));
  process.stdout.write(
    `first token: ${median(waits.direct).toFixed(1)} ms directly, ${firstTokenMsMore.toFixed(1)} ms more by the fleet; ${streams} streams: ${(100 * throughput).toFixed(1)} % of the tokens\n`,
  );
  process.stdout.write('processor time in µs a token:\n');
  for (const [kind, us] of Object.entries(processor)) {
    if (us >= 1) process.stdout.write(`  ${kind}: ${us.toFixed(0)}\n`);
  }
  return { firstTokenMs: median(waits.direct), firstTokenMsMore, throughput, speeds, processor };
}

function processorTimes() {
  const { user, system } = process.cpuUsage();
  const hosts = ['server', 'worker', 'gateway', 'nats1', 'nats2', 'nats3'];
  return {
    client: (user + system) / 1e6,
    ...Object.fromEntries(hosts.map((host) => [host, lab.processorSeconds(host)])),
  };
}

async function firstTokenMs(url) {
  const begun = performance.now();
  let first;
  const response = await stream(url, 8, `Say something about number ${Math.random()}.`);
  for await (const chunk of response.body ?? []) {
    if (Buffer.from(chunk).includes('"content":"')) first ??= performance.now();
  }
  return (first ?? Number.NaN) - begun;
}

async function load(url) {
  const begun = performance.now();
  await Promise.all(
    Array.from({ length: streams }, async (_, i) => {
      const response = await stream(url, tokens, `Tell a story about animal number ${i}.`);
      for await (const _chunk of response.body ?? []);
    }),
  );
  return (streams * tokens * 1000) / (performance.now() - begun);
}

function stream(url, maxTokens, content) {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      messages: [{ role: 'user', content }],
      max_tokens: maxTokens,
      ignore_eos: true,
      stream: true,
      temperature: 0,
    }),
  });
}

async function untilServed(url) {
  for (let attempt = 0; ; attempt++) {
    try {
      await ask(url, { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 });
      return;
    } catch (error) {
      if (attempt === 100) throw error;
      await sleep(200);
    }
  }
}

function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
}
