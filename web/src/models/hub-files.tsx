// What of a repository on the hub can be pulled: quantizations, sizes, whether they fit, and the pull itself.

import { useEffect, useState } from 'preact/hooks';
import type { OfferedModel } from '../../../src/server/admin/hub.ts';
import { formatBytes } from '../../../src/text/byte-size.ts';
import { type Server, wordsFor } from '../access/server.ts';
import { useValue } from '../observable.ts';
import { type Column, DataTable } from '../shell/data-table.tsx';
import { Problem } from '../shell/problem.tsx';
import { percent } from '../text/format.ts';
import { SafeText } from '../text/safe-text.tsx';
import type { Pull, Pulls } from './pulls.ts';

interface Offer {
  readonly memoryBytes: number;
  readonly data: readonly OfferedModel[];
}

interface HubFilesProps {
  readonly server: Server;
  readonly name: string;
  readonly gated: boolean;
  readonly pulls: Pulls;
}

export function HubFiles({ server, name, gated, pulls }: HubFilesProps) {
  const [offer, setOffer] = useState<Offer>();
  const [problem, setProblem] = useState<string>();
  const running = useValue(pulls);
  useEffect(() => {
    const leave = new AbortController();
    server.json<Offer>(`admin/hub/models/${name}`, { signal: leave.signal }).then(setOffer, (error) => {
      if (!leave.signal.aborted) setProblem(wordsFor(error));
    });
    return () => leave.abort();
  }, [server, name]);
  if (problem !== undefined) return <Problem text={problem} />;
  if (offer === undefined) return <p class="quiet">Asking for its files…</p>;
  if (offer.data.length === 0)
    return <p class="quiet">It holds no model in GGUF or safetensors, which are the formats served here.</p>;
  return (
    <>
      <p class="quiet">
        Models may take {formatBytes(offer.memoryBytes)} of memory here.
        {gated && ' This one is gated: accept its terms on the hub, and give the server a token as HF_TOKEN.'}
      </p>
      <DataTable
        caption={`Files of ${name}`}
        columns={columnsOf(running, pulls)}
        rows={offer.data}
        keyOf={({ model }) => model}
      />
    </>
  );
}

function columnsOf(running: readonly Pull[], pulls: Pulls): readonly Column<OfferedModel>[] {
  const pullOf = ({ model }: OfferedModel) => running.find((one) => one.model === model);
  return [
    {
      name: 'Quantization',
      cell: ({ quantization, model }) => (
        <SafeText text={quantization ?? (model.split(':')[1] || 'as published')} most={80} />
      ),
    },
    { name: 'Size', isNumber: true, cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
    { name: 'Memory', cell: ({ fits }) => (fits ? 'fits' : 'too large') },
    {
      name: 'Pull',
      isHidden: true,
      cell: (offered) => <PullCell offered={offered} pull={pullOf(offered)} pulls={pulls} />,
    },
  ];
}

interface PullCellProps {
  readonly offered: OfferedModel;
  readonly pull: Pull | undefined;
  readonly pulls: Pulls;
}

function PullCell({ offered: { model, here, fits }, pull, pulls }: PullCellProps) {
  if (here || pull?.state === 'done') return <span class="quiet">is here</span>;
  if (pull?.state === 'running') {
    const { totalBytes, doneBytes = 0 } = pull;
    return (
      <>
        <span class="quiet">{totalBytes ? `pulling, ${percent(doneBytes / totalBytes)}` : 'pulling'} </span>
        <button type="button" class="small" onClick={() => pulls.cancel(model)}>
          Cancel<span class="offscreen"> {model}</span>
        </button>
      </>
    );
  }
  // It could be pulled, and never be loaded.
  if (!fits) return null;
  return (
    <button type="button" class="small" onClick={() => void pulls.start(model)}>
      Pull<span class="offscreen"> {model}</span>
    </button>
  );
}
