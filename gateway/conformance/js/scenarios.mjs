// Scenarios of @azure/cosmos against the gateway. The endpoint and the key are in the
// environment. One line of JSON for each scenario that has passed; an error ends the run.
import assert from "node:assert/strict";
import { BulkOperationType, ChangeFeedStartFrom, CosmosClient, ErrorResponse } from "@azure/cosmos";

const client = new CosmosClient({
  endpoint: process.env.ACCOUNT_HOST,
  key: process.env.ACCOUNT_KEY,
  connectionPolicy: { enableBackgroundEndpointRefreshing: false },
});

async function fails(code, f, substatus) {
  try {
    await f();
  } catch (e) {
    assert.equal(e.code, code, `${e.code} ${e.message}`);
    if (substatus !== undefined) assert.equal(e.substatus ?? e.substatusCode, substatus);
    return e;
  }
  assert.fail(`no error, want ${code}`);
}

const scenarios = {
  async databases() {
    const { database } = await client.databases.createIfNotExists({ id: "js" });
    await client.databases.createIfNotExists({ id: "js" });
    await fails(409, () => client.databases.create({ id: "js" }));
    const { resources } = await client.databases.query({
      query: "SELECT * FROM root r WHERE r.id = @id", parameters: [{ name: "@id", value: "js" }],
    }).fetchAll();
    assert.equal(resources.length, 1);
    assert.ok((await client.databases.readAll().fetchAll()).resources.some((d) => d.id === "js"));
    assert.equal((await database.read()).resource.id, "js");
    await fails(404, () => client.database("none").read());
  },

  async containers() {
    const database = client.database("js");
    const { container, resource } = await database.containers.createIfNotExists({
      id: "items", partitionKey: { paths: ["/pk"] }, throughput: 20000, uniqueKeyPolicy: { uniqueKeys: [{ paths: ["/email"] }] },
    });
    assert.equal(resource.partitionKey.version, 2);
    assert.equal(resource.indexingPolicy.indexingMode, "consistent");
    const { resource: read } = await container.read();
    assert.equal(read._rid, resource._rid);
    read.defaultTtl = 100;
    assert.equal((await container.replace(read)).resource.defaultTtl, 100);
    delete read.defaultTtl;
    await container.replace(read);
    assert.equal((await container.readPartitionKeyRanges().fetchAll()).resources.length, 4);
    const offer = await container.readOffer();
    assert.equal(offer.resource.content.offerThroughput, 20000);
    offer.resource.content.offerThroughput = 15000;
    await client.offer(offer.resource.id).replace(offer.resource);
    assert.equal((await container.readOffer()).resource.content.offerThroughput, 15000);
    assert.equal((await database.containers.readAll().fetchAll()).resources.length, 1);
    await fails(400, () => database.containers.create({ id: "bad", partitionKey: { paths: [] } }).then(() => {
      throw new ErrorResponse("made");
    }));
  },

  async items() {
    const { items } = client.database("js").container("items");
    const container = client.database("js").container("items");
    const { resource: made, etag } = await items.create({ id: "1", pk: "a", n: 1, email: "x" });
    assert.equal(made._etag, etag);
    await fails(409, () => items.create({ id: "1", pk: "a", email: "y" }));
    await fails(409, () => items.create({ id: "2", pk: "a", email: "x" }));
    const { resource: read } = await container.item("1", "a").read();
    assert.deepEqual(read, made);
    assert.equal((await container.item("none", "a").read()).statusCode, 404);
    const { resource: replaced } = await container.item("1", "a").replace({ ...read, n: 2 }, {
      accessCondition: { type: "IfMatch", condition: read._etag },
    });
    assert.equal(replaced._rid, read._rid);
    await fails(412, () => container.item("1", "a").replace({ ...read, n: 3 }, {
      accessCondition: { type: "IfMatch", condition: read._etag },
    }));
    const { resource: patched } = await container.item("1", "a").patch([{ op: "incr", path: "/n", value: 5 }, { op: "add", path: "/tags", value: ["t"] }]);
    assert.equal(patched.n, 7);
    await fails(412, () => container.item("1", "a").patch({ condition: "from c where c.n > 100", operations: [{ op: "set", path: "/n", value: 0 }] }));
    assert.equal((await items.upsert({ id: "3", pk: "b" })).statusCode, 201);
    assert.equal((await items.upsert({ id: "3", pk: "b", n: 3 })).statusCode, 200);
    await fails(413, () => items.create({ id: "big", pk: "a", pad: "x".repeat(2 * 1024 * 1024) }));
    await items.create({ id: "none" });
    assert.equal((await container.item("none", undefined).read()).resource.id, "none");
    await container.item("none", undefined).delete();
    for (const id of ["with blank", "a+b=c", "鱀", "x%20y"]) {
      await items.create({ id, pk: id });
      assert.equal((await container.item(id, id).read()).resource.id, id);
      await container.item(id, id).delete();
    }
    await container.item("1", "a").delete();
    await container.item("3", "b").delete();
    await fails(404, () => container.item("1", "a").delete());
  },

  async batches() {
    const { items } = client.database("js").container("items");
    const done = await items.batch([
      { operationType: BulkOperationType.Create, resourceBody: { id: "b1", pk: "p", email: "1" } },
      { operationType: BulkOperationType.Upsert, resourceBody: { id: "b2", pk: "p", email: "2" } },
      { operationType: BulkOperationType.Read, id: "b1" },
      { operationType: BulkOperationType.Patch, id: "b2", resourceBody: { operations: [{ op: "set", path: "/m", value: 1 }] } },
    ], "p");
    assert.deepEqual(done.result.map((r) => r.statusCode), [201, 201, 200, 200]);
    const failed = await items.batch([
      { operationType: BulkOperationType.Delete, id: "b1" },
      { operationType: BulkOperationType.Create, resourceBody: { id: "b2", pk: "p" } },
    ], "p");
    assert.deepEqual(failed.result.map((r) => r.statusCode), [424, 409]);
    const bulk = await items.executeBulkOperations([...Array(150).keys()].map((i) => ({
      operationType: BulkOperationType.Create, partitionKey: `k${i % 20}`, resourceBody: { id: `q${i}`, pk: `k${i % 20}`, n: i, g: i % 3, email: `${i}` },
    })));
    assert.ok(bulk.every((r) => r.response?.statusCode === 201), JSON.stringify(bulk.find((r) => r.response?.statusCode !== 201)));
  },

  async queries() {
    const { items } = client.database("js").container("items");
    const all = async (query, options) => (await items.query(query, options).fetchAll()).resources;
    assert.equal((await all("SELECT * FROM c WHERE c.n >= 0")).length, 150);
    assert.equal((await all({ query: "SELECT * FROM c WHERE c.n < @n", parameters: [{ name: "@n", value: 10 }] })).length, 10);
    assert.equal((await all("SELECT VALUE c.n FROM c WHERE c.pk = 'k3'")).length, 8);
    let pages = 0, found = 0;
    const iterator = items.query("SELECT * FROM c WHERE c.n >= 0", { maxItemCount: 40 });
    while (iterator.hasMoreResults()) {
      const page = await iterator.fetchNext();
      pages++;
      found += page.resources?.length ?? 0;
    }
    assert.ok(pages >= 4 && found === 150, `${found} in ${pages}`);
  },

  async ordered() {
    const { items } = client.database("js").container("items");
    const all = async (query, options) => (await items.query(query, options).fetchAll()).resources;
    const up = await all("SELECT * FROM c WHERE c.n >= 0 ORDER BY c.n", { maxItemCount: 20 });
    assert.deepEqual(up.map((d) => d.n), [...Array(150).keys()]);
    assert.ok(up.every((d) => d._etag && d._self));
    assert.deepEqual(await all("SELECT VALUE c.n FROM c WHERE c.n >= 0 ORDER BY c.n DESC OFFSET 10 LIMIT 5"), [139, 138, 137, 136, 135]);
    assert.deepEqual(await all("SELECT TOP 3 c.n, c.g FROM c WHERE c.n >= 0 ORDER BY c.n"), [{ n: 0, g: 0 }, { n: 1, g: 1 }, { n: 2, g: 2 }]);
  },

  async aggregates() {
    const { items } = client.database("js").container("items");
    const all = async (query, options) => (await items.query(query, options).fetchAll()).resources;
    assert.deepEqual(await all("SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0"), [150]);
    assert.deepEqual(await all("SELECT VALUE SUM(c.n) FROM c WHERE c.n >= 0"), [11175]);
    assert.deepEqual(await all("SELECT VALUE AVG(c.n) FROM c WHERE c.n >= 0"), [74.5]);
    assert.deepEqual(await all("SELECT VALUE MAX(c.n) FROM c"), [149]);
    assert.deepEqual((await all("SELECT DISTINCT c.g FROM c WHERE c.n >= 0")).map((d) => d.g).sort(), [0, 1, 2]);
    const groups = await all("SELECT c.g, COUNT(1) AS n, AVG(c.n) AS mean FROM c WHERE c.n >= 0 GROUP BY c.g");
    assert.deepEqual(groups.sort((a, b) => a.g - b.g), [{ g: 0, n: 50, mean: 73.5 }, { g: 1, n: 50, mean: 74.5 }, { g: 2, n: 50, mean: 75.5 }]);
  },

  async changeFeed() {
    const { items } = client.database("js").container("items");
    const read = async (iterator) => {
      const ids = [];
      let token;
      while (iterator.hasMoreResults) {
        const page = await iterator.readNext();
        token = page.continuationToken;
        if (page.statusCode === 304) break;
        ids.push(...page.result.map((d) => d.id));
      }
      return { ids, token };
    };
    const first = await read(items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 25 }));
    assert.equal(new Set(first.ids).size, first.ids.length);
    assert.ok(first.ids.length >= 150, `${first.ids.length}`);
    await items.upsert({ id: "q7", pk: "k7", n: 7, g: 1, email: "7" });
    const second = await read(items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Continuation(first.token) }));
    assert.deepEqual(second.ids, ["q7"]);
    const one = await read(items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning("k7") }));
    assert.ok(one.ids.includes("q7") && one.ids.length <= 8, `${one.ids}`);
    const ranges = await client.database("js").container("items").getFeedRanges();
    assert.ok(ranges.length >= 2);
  },

  async drop() {
    await client.database("js").container("items").delete();
    await client.database("js").delete();
    await fails(404, () => client.database("js").read());
  },
};

const wanted = process.argv.slice(2);
let failed = 0;
for (const [name, scenario] of Object.entries(scenarios)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  try {
    await scenario();
    console.log(JSON.stringify({ scenario: name, ok: true }));
  } catch (e) {
    failed++;
    console.log(JSON.stringify({ scenario: name, ok: false, error: String(e.stack ?? e), code: e.code, substatus: e.substatus, body: e.body }));
  }
}
client.dispose();
process.exit(failed > 0 ? 1 : 0);
