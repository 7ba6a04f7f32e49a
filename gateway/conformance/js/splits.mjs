// Eight workers of @azure/cosmos that write, read and query, until standard input says "stop";
// then the change feed is read to its end. The line "change" begins the time in which partitions
// change. The last line printed is JSON: what was seen, the errors, and for each kind of work p50
// and p99 in milliseconds before that time and in it.
import { BulkOperationType, ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

const client = new CosmosClient({
  endpoint: process.env.ACCOUNT_HOST,
  key: process.env.ACCOUNT_KEY,
  connectionPolicy: { enableBackgroundEndpointRefreshing: false },
});
const { database } = await client.databases.createIfNotExists({ id: "d" });
const { container } = await database.containers.createIfNotExists({ id: "c", partitionKey: { paths: ["/pk"] } });
const { items } = container;

let running = true;
let during = 0;
process.stdin.on("data", (lines) => {
  if (/change/.test(lines)) during = 1;
  if (/stop/.test(lines)) running = false;
});
const errors = [];
const wrong = [];
const newest = new Map();
let calls = 0;

const idle = Symbol("idle");
const took = new Map(); // the kind of work: its durations before and while partitions change

async function worker([kind, work]) {
  if (!took.has(kind)) took.set(kind, [[], []]);
  for (let i = 0; running; i++) {
    try {
      const begun = performance.now();
      if ((await work(i)) === idle) continue;
      took.get(kind)[during].push(performance.now() - begun);
      if (++calls % 100 === 0) console.log(JSON.stringify({ calls }));
    } catch (e) {
      if (errors.push(`${e.code}/${e.substatus} ${e.message}`) > 20) return;
    }
  }
}

const some = () => [...newest.values()][Math.floor(Math.random() * newest.size)];

function writer(w) {
  return async (i) => {
    const doc = { id: `${w}-${i % 400}`, pk: `${(w * 7 + i % 400) % 61}`, n: i };
    await items.upsert(doc);
    newest.set(doc.id, doc);
  };
}

async function bulk(i) {
  const docs = [...Array(10).keys()].map((j) => ({ id: `bulk-${(i * 10 + j) % 300}`, pk: `${j}`, n: i }))
    .map((d) => ({ ...d, id: `${d.id}-${d.pk}` }));
  const done = await items.executeBulkOperations(docs.map((d) => ({ operationType: BulkOperationType.Upsert, partitionKey: d.pk, resourceBody: d })));
  done.forEach((r, j) => {
    if (r.response?.statusCode === 200 || r.response?.statusCode === 201) newest.set(docs[j].id, docs[j]);
    else errors.push(`bulk: ${r.error?.code} ${r.error?.message}`);
  });
}

async function reader() {
  const doc = some();
  if (!doc) return new Promise((done) => setTimeout(() => done(idle), 5));
  const { resource } = await container.item(doc.id, doc.pk).read();
  if (!resource || resource.n < doc.n) wrong.push(`read ${JSON.stringify(doc)}: ${JSON.stringify(resource)}`);
}

async function filtered() {
  const least = newest.size;
  const { resources } = await items.query("SELECT c.id FROM c WHERE c.n >= 0").fetchAll();
  const ids = new Set(resources.map((d) => d.id));
  if (ids.size !== resources.length) wrong.push(`query: ${resources.length - ids.size} items came twice`);
  if (ids.size < least) wrong.push(`query: ${ids.size} items, ${least} were there`);
}

async function ordered() {
  const least = newest.size;
  const { resources } = await items.query("SELECT c.id FROM c ORDER BY c.id", { maxItemCount: 100 }).fetchAll();
  for (let i = 1; i < resources.length; i++) {
    if (resources[i - 1].id >= resources[i].id) { wrong.push(`order: ${resources[i - 1].id} before ${resources[i].id}`); break; }
  }
  if (resources.length < least) wrong.push(`order: ${resources.length} items, ${least} were there`);
}

async function counted() {
  const least = newest.size;
  const { resources: [n] } = await items.query("SELECT VALUE COUNT(1) FROM c").fetchAll();
  if (n < least) wrong.push(`count: ${n}, ${least} were there`);
}

const shown = new Map();
const feed = items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 100 });
async function follow() {
  const page = await feed.readNext();
  for (const d of page.result ?? []) {
    if (shown.has(d.id) && shown.get(d.id) > d.n) wrong.push(`feed: ${d.id} ${d.n} after ${shown.get(d.id)}`);
    shown.set(d.id, d.n);
  }
  return page.statusCode === 304;
}

await Promise.all(Object.entries({ bulk, reader, filtered, ordered, counted, follow }).concat([0, 1].map((w) => ["upsert", writer(w)])).map(worker));
try {
  for (let quiet = 0; quiet < 20;) quiet = (await follow()) ? quiet + 1 : 0;
} catch (e) {
  errors.push(`feed: ${e.code}/${e.substatus} ${e.message}`);
}
for (const doc of newest.values()) {
  if (!(shown.get(doc.id) >= doc.n)) wrong.push(`feed: ${shown.get(doc.id)} of ${JSON.stringify(doc)}`);
}
const latencies = {};
for (const [kind, phases] of took) {
  latencies[kind] = phases.map((all) => {
    all.sort((a, b) => a - b);
    return [0.5, 0.99].map((share) => all[Math.floor(all.length * share)] ?? 0);
  });
}
console.log(JSON.stringify({ done: true, latencies, calls, items: newest.size, errors: errors.slice(0, 10), wrong: wrong.slice(0, 10) }));
client.dispose();
process.exit(0);
