package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/cleavestore/cleave/engine"
	"github.com/cleavestore/cleave/gateway"
)

// A program serves a store that it has open. Without a signature nothing is answered.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := engine.Open(ctx, dir, nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	h, err := gateway.New(ctx, db, &gateway.Options{Region: "Here"})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(h) // or http.ListenAndServe("127.0.0.1:8081", h)
	defer server.Close()
	answer, err := http.Get(server.URL + "/dbs")
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status)
	// Output: 401 Unauthorized
}
