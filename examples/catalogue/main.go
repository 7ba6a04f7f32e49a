// Catalogue keeps the products of a shop and their reviews by customers: two
// types of documents in one container.
//
//	go run ./examples/catalogue
//
// A product and its reviews are read together, so they share a partition key,
// /productId, and with it a logical partition: they lie next to each other and
// change together in transactions.
//
//	logical partition "kettle"
//	  id "product"       {"productId":"kettle","type":"product","name":…,"reviews":2,"stars":9}
//	  id "review-ada"    {"productId":"kettle","type":"review","author":"ada","stars":5,…}
//	  id "review-blaise" {"productId":"kettle","type":"review","author":"blaise","stars":4,…}
//
// An id need only be unique in its logical partition. So every product has
// the id "product", which a lookup knows beforehand. The id of a review contains its
// author, so an author cannot write two reviews of a product.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"github.com/cleavestore/cleave/engine"
)

// product is a document of the first type. Reviews and Stars sum up the
// documents of the second, so that a list of products need not read them.
type product struct {
	ProductID string `json:"productId"`
	ID        string `json:"id"` // always productItem
	Type      string `json:"type"`
	Name      string `json:"name"`
	Category  string `json:"category"`
	Cents     int    `json:"cents"`
	Reviews   int    `json:"reviews"` // how many there are
	Stars     int    `json:"stars"`   // of all of them
}

// review is a document of the second type.
type review struct {
	ProductID string `json:"productId"`
	ID        string `json:"id"` // reviewPrefix and the author
	Type      string `json:"type"`
	Author    string `json:"author"`
	Stars     int    `json:"stars"`
	Text      string `json:"text"`
}

const (
	productItem  = "product"
	reviewPrefix = "review-"
)

// errReviewed says that an author has reviewed a product already.
var errReviewed = errors.New("reviewed already")

// catalogue is a container with products and reviews.
type catalogue struct {
	container *engine.Container
	products  engine.TypedContainer[product] // the same container, its items as
	reviews   engine.TypedContainer[review]  // values of the one type or the other
}

// openCatalogue returns the catalogue of a store, made if there is none.
func openCatalogue(ctx context.Context, db *engine.DB) (catalogue, error) {
	c, err := db.EnsureContainer(ctx, "catalogue", engine.ContainerDef{
		PartitionKey:  []string{"/productId"},
		MinPartitions: 4, // or leave it to the engine: partitions split as they grow
		Index:         engine.IndexPolicy{Include: []string{"/type/?", "/category/?", "/cents/?", "/stars/?"}},
	})
	if err != nil {
		return catalogue{}, err
	}
	return catalogue{container: c, products: engine.Typed[product](c, nil), reviews: engine.Typed[review](c, nil)}, nil
}

// add puts a new product on sale.
func (c catalogue) add(ctx context.Context, p product) error {
	p.ID, p.Type = productItem, "product"
	_, err := c.products.Create(ctx, p, nil)
	return err
}

// addReview stores a review and counts it in its product. Both happen or
// neither does, however many customers write at once: if another one changed the
// product meanwhile, Update calls the function again.
func (c catalogue) addReview(ctx context.Context, r review) error {
	r.ID, r.Type = reviewPrefix+r.Author, "review"
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = c.container.Update(ctx, engine.StringKey(r.ProductID), func(tx *engine.Tx) error {
		if createErr := tx.Create(doc, nil); createErr != nil {
			return createErr
		}
		counted := new(engine.Patch).Increment("/reviews", 1).Increment("/stars", float64(r.Stars))
		return tx.Patch(productItem, counted, nil)
	})
	switch {
	case errors.Is(err, engine.ErrExists):
		return errReviewed
	case errors.Is(err, engine.ErrNotFound):
		return fmt.Errorf("there is no product %q", r.ProductID)
	}
	return err
}

// product is the first lookup: a point read, the cheapest thing that there is.
func (c catalogue) product(ctx context.Context, id string) (engine.TypedItem[product], error) {
	return c.products.Read(ctx, engine.StringKey(id), productItem)
}

// bestReviews is the second lookup: a query that names its logical partition and
// so looks at one physical partition, however large the catalogue is.
func (c catalogue) bestReviews(ctx context.Context, id string, n int) ([]review, engine.QueryStats, error) {
	result := c.container.Query(ctx, engine.OnePartition(engine.StringKey(id)), engine.Query{
		Where:   engine.Eq("/type", "review"),
		OrderBy: []engine.QueryOrder{{Path: "/stars", Desc: true}},
		Limit:   n,
	})
	var best []review
	for item, err := range result.All() {
		if err != nil {
			return nil, engine.QueryStats{}, err
		}
		var r review
		if err := json.Unmarshal(item.Body, &r); err != nil {
			return nil, engine.QueryStats{}, err
		}
		best = append(best, r)
	}
	return best, result.Stats(), nil
}

func main() {
	dir, err := os.MkdirTemp("", "catalogue")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), dir, os.Stdout)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

// run goes through what the catalogue can do, with a store in dir.
func run(ctx context.Context, dir string, out io.Writer) (err error) {
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := openCatalogue(ctx, db)
	if err != nil {
		return err
	}

	for _, p := range []product{
		{ProductID: "kettle", Name: "Kettle, 1.7 l", Category: "kitchen", Cents: 3990},
		{ProductID: "teapot", Name: "Teapot, cast iron", Category: "kitchen", Cents: 5450},
		{ProductID: "toaster", Name: "Toaster, two slots", Category: "kitchen", Cents: 2999},
		{ProductID: "lamp", Name: "Desk lamp", Category: "office", Cents: 4500},
	} {
		if err = c.add(ctx, p); err != nil {
			return err
		}
	}
	for _, r := range []review{
		{ProductID: "kettle", Author: "ada", Stars: 5, Text: "Boils before I have found a cup."},
		{ProductID: "kettle", Author: "blaise", Stars: 4, Text: "The lid could open wider."},
		{ProductID: "kettle", Author: "carl", Stars: 2, Text: "Sings. Flat."},
		{ProductID: "teapot", Author: "ada", Stars: 4, Text: "Heavy, keeps warm for an hour."},
	} {
		if err = c.addReview(ctx, r); err != nil {
			return err
		}
	}
	if err = c.addReview(ctx, review{ProductID: "kettle", Author: "ada", Stars: 5}); !errors.Is(err, errReviewed) {
		return fmt.Errorf("a second review by the same author: %v", err)
	}

	fmt.Fprintln(out, "The page of a product: two lookups, both in one logical partition")
	p, err := c.product(ctx, "kettle")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s, %s: %d reviews, %.1f stars on average (%.0f RU)\n",
		p.Value.Name, euros(p.Value.Cents), p.Value.Reviews, average(p.Value), p.Charge)
	best, stats, err := c.bestReviews(ctx, "kettle", 2)
	if err != nil {
		return err
	}
	for _, r := range best {
		fmt.Fprintf(out, "  %d stars  %-7s %s\n", r.Stars, r.Author, r.Text)
	}
	fmt.Fprintf(out, "  (%d of %d physical partitions asked)\n", stats.Partitions, len(c.container.Partitions()))

	fmt.Fprintln(out, "\nOr all of it at once, by a scan: what shares a key lies together, in the order of the ids")
	for item, err := range c.container.Scan(ctx, engine.StringKey("kettle"), engine.IDRange{}, nil) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-14s %3d bytes\n", item.ID, len(item.Body))
	}

	fmt.Fprintln(out, "\nEight customers review the lamp at once")
	if err = c.reviewAtOnce(ctx, "lamp", 8); err != nil {
		return err
	}
	p, err = c.product(ctx, "lamp")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %d reviews counted, %d stars: no update was lost\n", p.Value.Reviews, p.Value.Stars)

	fmt.Fprintln(out, "\nWhat names no product asks every physical partition: kitchen, by price")
	q, err := engine.ParseQuery(`SELECT c.name, c.cents FROM c WHERE c.category = @category ORDER BY c.cents`,
		map[string]any{"category": "kitchen"})
	if err != nil {
		return err
	}
	result := c.container.Query(ctx, engine.AllPartitions(), q)
	for item, err := range result.All() {
		if err != nil {
			return err
		}
		var row struct {
			Name  string
			Cents int
		}
		if err := json.Unmarshal(item.Body, &row); err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-20s %s\n", row.Name, euros(row.Cents))
	}
	fmt.Fprintf(out, "  (%d of %d physical partitions asked)\n", result.Stats().Partitions, len(c.container.Partitions()))
	return nil
}

// reviewAtOnce has n customers write their reviews side by side.
func (c catalogue) reviewAtOnce(ctx context.Context, id string, n int) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			errs[i] = c.addReview(ctx, review{ProductID: id, Author: fmt.Sprintf("customer-%d", i), Stars: 1 + i%5})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// average returns the mean of the stars given to a product.
func average(p product) float64 { return float64(p.Stars) / float64(max(p.Reviews, 1)) }

// euros returns a price for people.
func euros(cents int) string { return fmt.Sprintf("%d.%02d €", cents/100, cents%100) }
