package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/cleavestore/cleave/gateway/control"
	"github.com/cleavestore/cleave/gateway/gatewaytest"
)

// TestWithGatewaytest is an example: a test of code that uses azcosmos, with faults, a checkpoint
// and a clock.
func TestWithGatewaytest(t *testing.T) {
	t.Parallel()
	s, ctx := gatewaytest.Start(t, nil), t.Context()
	key, err := azcosmos.NewKeyCredential(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	quick := &azcosmos.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{RetryDelay: time.Millisecond}}}
	client, err := azcosmos.NewClientWithKey(s.Endpoint, key, quick)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "shop"}, nil); err != nil {
		t.Fatal(err)
	}
	d, err := client.NewDatabase("shop")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID: "orders", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	orders, err := d.NewContainer("orders")
	if err != nil {
		t.Fatal(err)
	}
	ann := azcosmos.NewPartitionKeyString("1")
	status := func(err error) int {
		var answer *azcore.ResponseError
		if errors.As(err, &answer) {
			return answer.StatusCode
		}
		return 0
	}
	if _, err = s.Control.Checkpoint(ctx, "empty"); err != nil {
		t.Fatal(err)
	}
	// The client repeats what is refused with 429, and succeeds.
	f := s.Plant(t, control.Fault{Status: 429, RetryAfter: 1, Operations: []string{"create"}, Count: 2})
	if _, err = orders.CreateItem(ctx, ann, []byte(`{"id":"1"}`), nil); err != nil {
		t.Error(err)
	}
	all, err := s.Control.Faults(ctx)
	if err != nil || len(all) != 1 || all[0].ID != f.ID || all[0].Met != 2 {
		t.Errorf("%+v %v", all, err)
	}
	if _, err = s.Control.Return(ctx, "empty"); err != nil {
		t.Fatal(err)
	}
	if _, err = orders.ReadItem(ctx, ann, "1", nil); status(err) != 404 {
		t.Errorf("after the return: %v", err)
	}
	if _, err = orders.CreateItem(ctx, ann, []byte(`{"id":"1"}`), nil); err != nil {
		t.Error(err)
	}
}
