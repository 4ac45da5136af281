// Transactions on a table of H2 in memory: look-ups by Zipf's law, some of which update. Where their number is 0, each
// number read asks for so many.

import java.io.File;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.util.Scanner;
import java.util.SplittableRandom;

public final class Transactions {
    private static final double SKEW = 0.99;
    private static final int LOOKUPS = 8;
    private static final double UPDATES = 0.1;

    private static String letters(SplittableRandom random) {
        char[] text = new char[100];
        for (int i = 0; i < text.length; i++) {
            text[i] = (char) ('a' + random.nextInt(26));
        }
        return new String(text);
    }

    private static int[] shuffled(int count, SplittableRandom random) {
        int[] all = new int[count];
        for (int i = 0; i < count; i++) {
            int other = random.nextInt(i + 1);
            all[i] = all[other];
            all[other] = i;
        }
        return all;
    }

    public static void main(String[] args) throws Exception {
        int rows = Integer.parseInt(args[0]);
        int transactions = Integer.parseInt(args[1]);
        SplittableRandom random = new SplittableRandom(1);
        int[] keyOf = shuffled(rows, random);
        float[] upTo = new float[rows];
        double sum = 0;
        for (int rank = 0; rank < rows; rank++) {
            sum += Math.pow(rank + 1, -SKEW);
            upTo[rank] = (float) sum;
        }
        try (Connection database = DriverManager.getConnection("jdbc:h2:mem:t")) {
            database.setAutoCommit(false);
            database.createStatement().execute(
                "create table account(id int primary key, balance bigint, filler varchar(100))");
            try (PreparedStatement insert =
                    database.prepareStatement("insert into account values (?, 0, ?)")) {
                for (int id : shuffled(rows, random)) {
                    insert.setInt(1, id);
                    insert.setString(2, letters(random));
                    insert.execute();
                    if (id % 100 == 0) {
                        database.commit();
                    }
                }
            }
            database.commit();
            new File(args[2]).createNewFile();
            if (transactions > 0) {
                run(database, transactions, upTo, keyOf, random);
                return;
            }
            Scanner asked = new Scanner(System.in);
            System.out.println("ready");
            while (asked.hasNextInt()) {
                run(database, asked.nextInt(), upTo, keyOf, random);
                System.out.println("done");
            }
        }
    }

    private static void run(Connection database, int transactions, float[] upTo, int[] keyOf,
            SplittableRandom random) throws Exception {
        PreparedStatement look =
            database.prepareStatement("select balance, filler from account where id = ?");
        PreparedStatement update =
            database.prepareStatement("update account set balance = balance + 1 where id = ?");
        for (int done = 0; done < transactions; done++) {
            for (int nth = 0; nth < LOOKUPS; nth++) {
                float at = (float) (random.nextDouble() * upTo[upTo.length - 1]);
                int found = java.util.Arrays.binarySearch(upTo, at);
                int id = keyOf[Math.min(found < 0 ? -found - 1 : found, keyOf.length - 1)];
                look.setInt(1, id);
                try (ResultSet row = look.executeQuery()) {
                    if (!row.next()) {
                        throw new IllegalStateException("no row " + id);
                    }
                    row.getString(2);
                }
                if (random.nextDouble() < UPDATES) {
                    update.setInt(1, id);
                    update.executeUpdate();
                }
            }
            database.commit();
        }
    }
}
