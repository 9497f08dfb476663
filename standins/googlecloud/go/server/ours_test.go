package main

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Each test has a project of its own on one cloud, which is asked as its clients ask it.

var (
	tested     *cloud
	startsOnce sync.Once
)

func startProject(t *testing.T, id string) *cloud {
	t.Helper()
	startsOnce.Do(func() {
		silence()
		made, err := newCloud(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		tested = made
	})
	if err := tested.createProject(id); err != nil {
		t.Fatal(err)
	}
	return tested
}

func (c *cloud) want(t *testing.T, status int, method, address string, body any) map[string]any {
	t.Helper()
	code, reply := c.call(method, "https://"+address, body)
	if code != status {
		t.Fatalf("%s %s: %d, not %d: %v", method, address, code, status, reply)
	}
	return reply
}

func same(t *testing.T, what string, got, expected any) {
	t.Helper()
	if !reflect.DeepEqual(got, expected) {
		t.Errorf("%s: got %v, expected %v", what, got, expected)
	}
}

// makePool makes a cluster with a pool of one node, and returns the pool's address.
func makePool(t *testing.T, c *cloud, project, cluster string, pool map[string]any) string {
	t.Helper()
	clusters := "container.googleapis.com/v1/projects/" + project + "/locations/us-east5/clusters"
	c.want(t, 200, http.MethodPost, clusters, map[string]any{"cluster": map[string]any{
		"name": cluster, "initialNodeCount": 1, "locations": []string{"us-east5-b"},
	}})
	pool["initialNodeCount"] = 1
	c.want(t, 200, http.MethodPost, clusters+"/"+cluster+"/nodePools", map[string]any{"nodePool": pool})
	return clusters + "/" + cluster + "/nodePools/" + text(pool, "name")
}

// sizes returns the sizes of a pool's instance groups, by their zones.
func sizes(t *testing.T, c *cloud, pool string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	groups, _ := c.want(t, 200, http.MethodGet, pool, nil)["instanceGroupUrls"].([]any)
	for _, group := range groups {
		address := strings.Replace(fmt.Sprint(group), "https://www.", "compute.", 1)
		code, reply := c.call(http.MethodGet, "https://"+address, nil)
		if code == http.StatusOK {
			found[strings.Split(address, "/")[6]] = number(reply, "targetSize")
		}
	}
	return found
}

func TestEachServiceTellsItsRegions(t *testing.T) {
	c := startProject(t, "regions-project")
	for host, has := range map[string]bool{"cloudscheduler": false, "cloudfunctions": true, "run": true} {
		reply := c.want(t, 200, http.MethodGet, host+".googleapis.com/v1/projects/regions-project/locations", nil)
		same(t, host, strings.Contains(fmt.Sprint(reply["locations"]), "us-east5"), has)
	}
}

func TestPoolsOfOneNameInTwoClustersHaveTheirOwnGroups(t *testing.T) {
	c := startProject(t, "groups-project")
	first := makePool(t, c, "groups-project", "first", map[string]any{"name": "cpu"})
	second := makePool(t, c, "groups-project", "second", map[string]any{"name": "cpu"})
	listed := "compute.googleapis.com/compute/v1/projects/groups-project/zones/us-east5-b/instanceGroupManagers"
	items, _ := c.want(t, 200, http.MethodGet, listed, nil)["items"].([]any)
	same(t, "the groups of the zone", len(items), 2)

	c.want(t, 200, http.MethodDelete, second, nil)
	same(t, "the first pool's groups", sizes(t, c, first), map[string]float64{"us-east5-b": 1})
	items, _ = c.want(t, 200, http.MethodGet, listed, nil)["items"].([]any)
	same(t, "the groups of the zone", len(items), 1)
}

func TestEachClusterHasAnEndpointThatIsTheNameOfAHost(t *testing.T) {
	c := startProject(t, "hosts-project")
	form, endpoints := regexp.MustCompile(`^gke-[0-9a-f]{8}-[0-9]+\.us-east5\.gke\.goog$`), map[string]bool{}
	for _, name := range []string{"first", "second"} {
		makePool(t, c, "hosts-project", name, map[string]any{"name": "cpu"})
		address := "container.googleapis.com/v1/projects/hosts-project/locations/us-east5/clusters/" + name
		endpoint := text(c.want(t, 200, http.MethodGet, address, nil), "controlPlaneEndpointsConfig", "dnsEndpointConfig", "endpoint")
		same(t, endpoint, form.MatchString(endpoint), true)
		endpoints[endpoint] = true
	}
	same(t, "endpoints", len(endpoints), 2)
	c.want(t, 404, http.MethodGet, "container.googleapis.com/v1/projects/hosts-project/locations/us-east5/clusters/third", nil)
}

func TestAResizedPoolHasAsManyNodesInEachZone(t *testing.T) {
	c := startProject(t, "sizes-project")
	pool := makePool(t, c, "sizes-project", "first", map[string]any{"name": "cpu", "locations": []string{"us-east5-a", "us-east5-b"}})
	for _, size := range []float64{3, 0} {
		c.want(t, 200, http.MethodPost, pool+":setSize", map[string]any{"nodeCount": size})
		same(t, "the sizes", sizes(t, c, pool), map[string]float64{"us-east5-a": size, "us-east5-b": size})
		same(t, "what it began with", c.want(t, 200, http.MethodGet, pool, nil)["initialNodeCount"], 1.0)
	}
	c.want(t, 404, http.MethodPost, pool+"2:setSize", map[string]any{"nodeCount": 1})
}

func TestAPoolLosesTheLabelsThatAnUpdateDoesNotName(t *testing.T) {
	c := startProject(t, "pools-project")
	labels := map[string]any{"a": "1", "b": "2"}
	pool := makePool(t, c, "pools-project", "first", map[string]any{"name": "cpu", "config": map[string]any{"labels": labels, "resourceLabels": labels}})
	c.want(t, 200, http.MethodPut, pool, map[string]any{"name": "cpu", "labels": map[string]any{"labels": map[string]any{"a": "1"}}})
	reply := c.want(t, 200, http.MethodGet, pool, nil)
	same(t, "labels", within(reply, "config", "labels"), map[string]any{"a": "1"})
	same(t, "resourceLabels", within(reply, "config", "resourceLabels", "b"), "2")

	c.want(t, 200, http.MethodPut, pool, map[string]any{"resourceLabels": map[string]any{}})
	reply = c.want(t, 200, http.MethodGet, pool, nil)
	same(t, "labels", within(reply, "config", "labels"), map[string]any{"a": "1"})
	same(t, "resourceLabels", within(reply, "config", "resourceLabels"), nil)
	c.want(t, 404, http.MethodPut, pool+"2", map[string]any{"labels": map[string]any{}})
}

func TestABucketLosesTheLabelsThatAreNull(t *testing.T) {
	c := startProject(t, "labels-project")
	c.want(t, 200, http.MethodPost, "storage.googleapis.com/storage/v1/b?project=labels-project",
		map[string]any{"name": "a-bucket", "labels": map[string]any{"a": "1", "b": "2", "c": "3"}})
	address := "storage.googleapis.com/storage/v1/b/a-bucket"
	for _, each := range []struct{ given, left any }{
		{map[string]any{"a": nil, "b": "4"}, map[string]any{"b": "4", "c": "3"}},
		{map[string]any{"b": nil, "c": nil}, nil},
		{map[string]any{"d": "5"}, map[string]any{"d": "5"}},
		{nil, nil},
	} {
		c.want(t, 200, http.MethodPatch, address, map[string]any{"labels": each.given})
		same(t, fmt.Sprintf("labels after %v", each.given), c.want(t, 200, http.MethodGet, address, nil)["labels"], each.left)
	}
	c.want(t, 404, http.MethodPatch, address+"2", map[string]any{"labels": map[string]any{"a": nil}})
}

func TestAFunctionLosesItsLabels(t *testing.T) {
	c := startProject(t, "code-project")
	c.want(t, 200, http.MethodPost, "storage.googleapis.com/storage/v1/b?project=code-project", map[string]any{"name": "code"})
	c.want(t, 200, http.MethodPost, "storage.googleapis.com/upload/storage/v1/b/code/o?uploadType=media&name=code.zip", map[string]any{})
	functions := "cloudfunctions.googleapis.com/v2/projects/code-project/locations/us-central1/functions"
	source := map[string]any{"storageSource": map[string]any{"bucket": "code", "object": "code.zip"}}
	c.want(t, 200, http.MethodPost, functions+"?functionId=sweep",
		map[string]any{"labels": map[string]any{"a": "1", "b": "2"}, "buildConfig": map[string]any{"source": source}})
	for _, left := range []any{map[string]any{"a": "1"}, nil} {
		given := map[string]any{}
		if left != nil {
			given["labels"] = left
		}
		c.want(t, 200, http.MethodPatch, functions+"/sweep?updateMask=labels", given)
		same(t, "labels", c.want(t, 200, http.MethodGet, functions+"/sweep", nil)["labels"], left)
	}
}

func TestTheTextsOfACustomRoleChange(t *testing.T) {
	c := startProject(t, "roles-project")
	roles := "iam.googleapis.com/v1/projects/roles-project/roles"
	c.want(t, 200, http.MethodPost, roles, map[string]any{"roleId": "sweeper", "role": map[string]any{
		"title": "Sweeper", "description": "first", "includedPermissions": []string{"a.b.get"}, "stage": "BETA",
	}})
	// Terraform's provider names no mask; gcloud does.
	reply := c.want(t, 200, http.MethodPatch, roles+"/sweeper", map[string]any{"title": "Sweeper", "description": "second", "stage": "GA"})
	same(t, "etag", reply["etag"], c.want(t, 200, http.MethodGet, roles+"/sweeper", nil)["etag"])
	delete(reply, "etag")
	same(t, "the role", reply, map[string]any{
		"name": "projects/roles-project/roles/sweeper", "title": "Sweeper", "description": "second",
		"includedPermissions": []any{"a.b.get"}, "stage": "GA",
	})
	c.want(t, 200, http.MethodPatch, roles+"/sweeper?updateMask=description,included_permissions",
		map[string]any{"title": "another", "includedPermissions": []string{"a.b.list"}})
	reply = c.want(t, 200, http.MethodGet, roles+"/sweeper", nil)
	delete(reply, "etag")
	same(t, "the role", reply, map[string]any{
		"name": "projects/roles-project/roles/sweeper", "title": "Sweeper", "includedPermissions": []any{"a.b.list"}, "stage": "GA",
	})
	c.want(t, 400, http.MethodPatch, roles+"/sweeper", map[string]any{"stage": "SOON"})
	c.want(t, 404, http.MethodPatch, roles+"/sleeper", map[string]any{"title": "a"})
}

func TestALogSinkGetsWhatTheMaskNames(t *testing.T) {
	c := startProject(t, "sinks-project")
	sinks := "logging.googleapis.com/v2/projects/sinks-project/sinks"
	made := c.want(t, 200, http.MethodPost, sinks+"?uniqueWriterIdentity=true", map[string]any{
		"name": "ends", "destination": "pubsub.googleapis.com/first", "filter": "a", "description": "first",
		"exclusions": []any{map[string]any{"name": "b", "filter": "c"}},
	})
	// Terraform's provider names the exclusions each time, and leaves them out of the body if there are none.
	reply := c.want(t, 200, http.MethodPatch, sinks+"/ends?updateMask=destination,description,exclusions&uniqueWriterIdentity=true",
		map[string]any{"destination": "pubsub.googleapis.com/second", "filter": "z", "description": "second"})
	same(t, "a newer time", text(reply, "updateTime") > text(made, "updateTime"), true)
	delete(reply, "updateTime")
	same(t, "the sink", reply, map[string]any{
		"name": "ends", "destination": "pubsub.googleapis.com/second", "filter": "a", "description": "second",
		"writerIdentity": made["writerIdentity"], "createTime": made["createTime"],
	})
	same(t, "what is kept", c.want(t, 200, http.MethodGet, sinks+"/ends", nil)["filter"], "a")
	c.want(t, 400, http.MethodPatch, sinks+"/ends?updateMask=colour", map[string]any{"colour": "red"})
	c.want(t, 404, http.MethodPatch, sinks+"/starts?updateMask=filter", map[string]any{"filter": "a"})
}

func TestASubscriptionIsThereAtOnceAndCannotBeCreatedTwice(t *testing.T) {
	c := startProject(t, "letters-project")
	resources := "pubsub.googleapis.com/v1/projects/letters-project/"
	c.want(t, 200, http.MethodPut, resources+"topics/letters", map[string]any{})
	body := map[string]any{"topic": "projects/letters-project/topics/letters"}
	codes := make(chan int, 2)
	for range 2 {
		go func() {
			code, _ := c.call(http.MethodPut, "https://"+resources+"subscriptions/letters", body)
			codes <- code
		}()
	}
	same(t, "two creates at once", (<-codes)+(<-codes), http.StatusOK+http.StatusConflict)

	reply := c.want(t, 200, http.MethodGet, resources+"subscriptions/letters", nil)
	same(t, "its topic", reply["topic"], body["topic"])
	c.want(t, 409, http.MethodPut, resources+"subscriptions/letters", body)
	c.want(t, 409, http.MethodPut, resources+"topics/letters", map[string]any{})
	c.want(t, 200, http.MethodDelete, resources+"subscriptions/letters", nil)
	c.want(t, 404, http.MethodGet, resources+"subscriptions/letters", nil)
	c.want(t, 200, http.MethodPut, resources+"subscriptions/letters", body)
}
