create table account(id int primary key, balance bigint not null, filler char(84) not null);
insert into account select id, 0, md5(id::text) from generate_series(1, :rows) id;
create function look(times int, rows int) returns void language plpgsql as $$
declare
    chosen int;
    seen bigint;
begin
    for nth in 1..times loop
        -- Numbers by a power law, 1 the most popular.
        chosen := floor(exp(random() * ln(rows)))::int;
        select balance into seen from account where id = chosen;
        if nth % 10 = 0 then
            update account set balance = balance + 1 where id = chosen;
        end if;
    end loop;
end $$;
vacuum analyze account;
