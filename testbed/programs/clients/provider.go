package main

import (
	"context"
	"fmt"
	"net/url"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// provider is the controller of an API's owner: it follows the endpoints of its APIExport, watches the objects of all
// consumers at each, and keeps `status.seen` of every widget equal to `spec.count`, through the virtual workspace.
type provider struct {
	base     *rest.Config
	recorder *recorder
	widget   resource
	ledger   *ledger
	ctx      context.Context
	queue    workqueue.TypedRateLimitingInterface[string]

	reconciled atomic.Int64
	requeued   atomic.Int64

	mu        sync.Mutex
	endpoints map[string]*endpoint
	last      *endpoint // that took the last write
	past      []*endpoint
	changes   []endpointChange
}

// endpoint is one shard's virtual workspace of the APIExport, from when it was named until it is no more.
type endpoint struct {
	url     string
	watched *watched
	client  *client
	stop    context.CancelFunc
	writers map[string]*client // by logical cluster
}

type endpointChange struct {
	At   int64    `json:"at"` // ms since the epoch
	URLs []string `json:"urls"`
}

var slices = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}

const clusterAnnotation = "kcp.io/cluster"

// follow watches the APIExportEndpointSlice in the provider's workspace.
func (p *provider) follow(ctx context.Context, host, export string) (cache.SharedIndexInformer, error) {
	c, err := newClient(p.base, p.recorder, "provider's endpoints", host, true)
	if err != nil {
		return nil, err
	}
	p.ctx = ctx
	p.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	objects := c.dynamic.Resource(slices)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: objects.Watch,
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw, c.dynamic), &unstructured.Unstructured{}, 0, cache.Indexers{})
	take := func(found any) {
		if slice, ok := found.(*unstructured.Unstructured); ok && slice.GetName() == export {
			p.take(slice)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take, UpdateFunc: func(_, found any) { take(found) }})
	go informer.RunWithContext(ctx)
	go work(ctx, p.queue, &p.reconciled, &p.requeued, p.sync)
	go func() {
		<-ctx.Done()
		p.queue.ShutDown()
	}()
	return informer, err
}

func (p *provider) take(slice *unstructured.Unstructured) {
	entries, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
	wanted := map[string]bool{}
	for _, entry := range entries {
		if address, ok := entry.(map[string]any)["url"].(string); ok {
			wanted[address] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var hasChanged bool
	for address := range wanted {
		if p.endpoints[address] == nil {
			hasChanged = true
			p.open(address)
		}
	}
	for address, at := range p.endpoints {
		if !wanted[address] {
			hasChanged = true
			at.stop()
			p.past = append(p.past, at)
			delete(p.endpoints, address)
		}
	}
	if hasChanged {
		urls := []string{}
		for address := range wanted {
			urls = append(urls, address)
		}
		sort.Strings(urls)
		p.changes = append(p.changes, endpointChange{At: time.Now().UnixMilli(), URLs: urls})
	}
}

// open begins to watch all consumers' objects at an endpoint. The lock is held.
func (p *provider) open(address string) {
	c, err := newClient(p.base, p.recorder, "provider's informer", address+"/clusters/*", true)
	if err != nil {
		panic(err) // the configuration is that of all clients
	}
	name := fmt.Sprintf("provider at %s #%d", hostOf(address), len(p.past)+len(p.endpoints)+1)
	ctx, stop := context.WithCancel(p.ctx)
	at := &endpoint{
		url: address, client: c, stop: stop, writers: map[string]*client{},
		watched: newWatched(name, p.widget, c, metav1.NamespaceAll, p.ledger),
	}
	if _, err := at.watched.informer.AddEventHandler(enqueueing(p.queue)); err != nil {
		panic(err) // it has not been stopped
	}
	p.endpoints[address] = at
	go at.watched.informer.RunWithContext(ctx)
}

func hostOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Host
}

// copyOf is an object as one endpoint has it.
type copyOf struct {
	object *unstructured.Unstructured
	at     *endpoint
}

// copies returns an object as the endpoints have it: while a consumer moves, two have it. The endpoint that took the
// last write comes first, so that a consumer's place is taken to be where it was until that refuses.
func (p *provider) copies(key string) []copyOf {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := []copyOf{}
	for _, at := range p.endpoints {
		object, exists, err := at.watched.informer.GetStore().GetByKey(key)
		if err == nil && exists {
			found = append(found, copyOf{object.(*unstructured.Unstructured), at})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].at == p.last && found[j].at != p.last })
	return found
}

func (p *provider) sync(ctx context.Context, key string) error {
	var last error
	for _, found := range p.copies(key) {
		if !isOurs(found.object.GetName()) {
			return nil
		}
		// A conflict says that this is the place, and that the copy is old.
		if last = p.observe(ctx, found); last == nil || apierrors.IsConflict(last) {
			return last
		}
	}
	return last
}

func (p *provider) observe(ctx context.Context, found copyOf) error {
	count := p.widget.get(found.object, "count")
	if seen, has, _ := unstructured.NestedInt64(found.object.Object, "status", "seen"); has && seen == count {
		return nil
	}
	c, err := p.writer(found.at, found.object.GetAnnotations()[clusterAnnotation])
	if err != nil {
		return err
	}
	widget := found.object.DeepCopy()
	if err := unstructured.SetNestedField(widget.Object, count, "status", "seen"); err != nil {
		return err
	}
	return c.call("update", "widgets", func() error {
		updated, err := p.widget.in(c.dynamic).UpdateStatus(ctx, widget, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		p.ledger.acknowledge(updated, "provider at "+hostOf(found.at.url))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = found.at
		return nil
	})
}

// writer is the client for one consumer's cluster at an endpoint.
func (p *provider) writer(at *endpoint, cluster string) (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.writers[cluster] == nil {
		c, err := newClient(p.base, p.recorder, "provider", at.url+"/clusters/"+cluster, false)
		if err != nil {
			return nil, err
		}
		at.writers[cluster] = c
	}
	return at.writers[cluster], nil
}

func (p *provider) behind(widgets *unstructured.UnstructuredList) []string {
	behind := []string{}
	for _, item := range widgets.Items {
		count := p.widget.get(&item, "count")
		seen, _, _ := unstructured.NestedInt64(item.Object, "status", "seen")
		if isOurs(item.GetName()) && seen != count {
			behind = append(behind, fmt.Sprintf("%s counts %d, seen %d", item.GetName(), count, seen))
		}
	}
	return behind
}
